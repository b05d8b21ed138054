//! The peer: group commit by hand with rusqlite, as one would write it for just this.
//!
//! The tables are those of the SQLite store, made by it; rows, packed bytes and pragmas are the same, and a hub can read
//! what stands there afterwards. It does none of what the hub does besides: no claims, no fences, no cursors, no tails, no
//! retention, no other processes.

use std::path::Path;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rusqlite::{CachedStatement, Connection, params};
use tidings::{Durability, Hub};
use tokio::sync::oneshot;

use crate::Result;
use crate::producers::Target;

/// As the hub's chunks.
const CHUNK_EVENTS: u32 = 1_024;
const CHUNK_BYTES: usize = 256 << 10;
/// Events in one transaction at most.
const GROUP: usize = 65_536;

const INSERT: &str = "INSERT INTO chunks (stream, first_seq, count, last_time, data) VALUES (?1, ?2, ?3, ?4, ?5)";
const UPDATE: &str = "UPDATE streams SET next_seq = ?2, bytes = bytes + ?3 WHERE n = ?1";

/// One event on its way; `done` is answered once it is committed.
struct Event {
    stream: usize,
    payload: Vec<u8>,
    time: i64,
    done: Option<oneshot::Sender<()>>,
}

/// A writer thread behind a channel.
#[derive(Clone)]
pub struct Raw {
    queue: mpsc::Sender<Event>,
}

/// Ends the writer thread.
pub struct Thread(JoinHandle<Result<()>>);

impl Thread {
    /// Waits for the thread, whose senders must all be gone.
    pub fn join(self) -> Result<()> {
        self.0.join().map_err(|_| "the writer thread panicked")?
    }
}

impl Raw {
    /// Makes the store at `db`, which must not exist, and starts the writer thread on it.
    pub fn open(db: &Path, streams: usize, durability: Durability) -> Result<(Self, Thread)> {
        make_tables(db, streams)?;
        let writer = Writer::open(db, streams, durability)?;
        let (queue, events) = mpsc::channel();
        let thread = std::thread::Builder::new().name("raw-writer".to_owned()).spawn(move || writer.run(&events))?;
        Ok((Self { queue }, Thread(thread)))
    }

    fn send(&self, stream: usize, payload: &[u8], done: Option<oneshot::Sender<()>>) -> Result<()> {
        let time = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as i64;
        self.queue
            .send(Event { stream, payload: payload.to_vec(), time, done })
            .map_err(|_| "the writer thread is gone".into())
    }
}

impl Target for Raw {
    async fn append(&self, stream: usize, payload: &[u8]) -> Result<()> {
        let (done, committed) = oneshot::channel();
        self.send(stream, payload, Some(done))?;
        Ok(committed.await?)
    }

    async fn burst(&self, count: usize, payload: &[u8]) -> Result<Duration> {
        let begun = Instant::now();
        for _ in 1..count {
            self.send(0, payload, None)?;
        }
        let (done, committed) = oneshot::channel();
        self.send(0, payload, Some(done))?;
        let handed_over = begun.elapsed();
        committed.await?;
        Ok(handed_over)
    }
}

/// The store itself makes its tables and the streams' rows.
fn make_tables(db: &Path, streams: usize) -> Result<()> {
    let hub = Hub::open(&format!("sqlite:{}", db.display()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    for n in 0..streams {
        runtime.block_on(hub.stream("session:bench", format!("stream-{n}"))?.claim())?;
    }
    if hub.close(Duration::from_secs(10)) { Ok(()) } else { Err("the hub did not close".into()) }
}

/// What is being packed for one stream.
#[derive(Default)]
struct Open {
    row: i64,
    next_seq: i64,
    data: Vec<u8>,
    count: u32,
    last_time: i64,
    bytes: i64,
}

struct Writer {
    conn: Connection,
    streams: Vec<Open>,
}

impl Writer {
    fn open(db: &Path, streams: usize, durability: Durability) -> Result<Self> {
        let conn = Connection::open(db)?;
        let synchronous = match durability {
            Durability::Process => "NORMAL",
            Durability::Disk => "FULL",
        };
        // Those of core/store-sqlite's connection.rs.
        conn.execute_batch(&format!(
            "PRAGMA temp_store = MEMORY; PRAGMA mmap_size = 0; PRAGMA foreign_keys = OFF; PRAGMA trusted_schema = OFF;
             PRAGMA wal_autocheckpoint = 4000; PRAGMA journal_size_limit = {}; PRAGMA cell_size_check = ON;
             PRAGMA cache_size = -16000; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON;
             PRAGMA synchronous = {synchronous};",
            64 << 20
        ))?;
        let mode: String = conn.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
        let mut rows = conn.prepare("SELECT n, next_seq FROM streams ORDER BY n")?;
        let found: Vec<Open> = rows
            .query_map([], |row| Ok(Open { row: row.get(0)?, next_seq: row.get(1)?, ..Open::default() }))?
            .collect::<std::result::Result<_, _>>()?;
        drop(rows);
        if mode != "wal" || found.len() != streams {
            return Err(format!("the store made {} streams in journal mode {mode}", found.len()).into());
        }
        Ok(Self { conn, streams: found })
    }

    fn run(mut self, events: &mpsc::Receiver<Event>) -> Result<()> {
        let (mut group, mut touched) = (Vec::new(), Vec::new());
        while let Ok(first) = events.recv() {
            group.push(first);
            group.extend(events.try_iter().take(GROUP - 1));
            self.commit(&group, &mut touched)?;
            for event in group.drain(..) {
                if let Some(done) = event.done {
                    let _ = done.send(());
                }
            }
        }
        Ok(())
    }

    fn commit(&mut self, group: &[Event], touched: &mut Vec<usize>) -> Result<()> {
        // Prepared statements throughout: preparing one costs more than running it.
        let conn = &self.conn;
        conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let mut insert = conn.prepare_cached(INSERT)?;
        for event in group {
            let open = &mut self.streams[event.stream];
            if open.count == 0 && open.bytes == 0 {
                touched.push(event.stream);
            }
            open.push(event);
            if open.count >= CHUNK_EVENTS || open.data.len() >= CHUNK_BYTES {
                open.insert(&mut insert)?;
            }
        }
        let mut update = conn.prepare_cached(UPDATE)?;
        for stream in touched.drain(..) {
            let open = &mut self.streams[stream];
            if open.count > 0 {
                open.insert(&mut insert)?;
            }
            update.execute(params![open.row, open.next_seq, std::mem::take(&mut open.bytes)])?;
        }
        conn.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }
}

impl Open {
    /// Packs one event as core/store's chunk.rs says.
    fn push(&mut self, event: &Event) {
        const KIND: &[u8] = b"message";
        let same_kind = self.count > 0;
        let kind = if same_kind { &[] } else { KIND };
        self.data.push(u8::from(same_kind));
        self.data.extend_from_slice(&event.time.to_le_bytes());
        self.data.extend_from_slice(&(kind.len() as u16).to_le_bytes());
        self.data.extend_from_slice(&0_u16.to_le_bytes());
        self.data.extend_from_slice(&(event.payload.len() as u32).to_le_bytes());
        self.data.extend_from_slice(kind);
        self.data.extend_from_slice(&event.payload);
        self.count += 1;
        self.last_time = event.time;
    }

    fn insert(&mut self, insert: &mut CachedStatement<'_>) -> Result<()> {
        insert.execute(params![self.row, self.next_seq, self.count, self.last_time, self.data])?;
        self.next_seq += i64::from(self.count);
        self.bytes += self.data.len() as i64;
        self.count = 0;
        self.data.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidings::{After, ReadLimits};

    /// What the peer writes is what the store would have written: a hub reads it.
    #[test]
    fn a_hub_reads_what_the_peer_wrote() {
        let dir = tempfile::tempdir().unwrap();
        let db = dir.path().join("raw.db");
        let (raw, thread) = Raw::open(&db, 2, Durability::Process).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            raw.burst(3_000, b"[0]").await.unwrap();
            raw.append(1, b"[1]").await.unwrap();
            raw.append(0, b"[2]").await.unwrap();
        });
        drop(raw);
        thread.join().unwrap();

        let hub = Hub::open(&format!("sqlite:{}", db.display())).unwrap();
        let limits = ReadLimits { events: 10_000, bytes: 1 << 30 };
        let read = hub.stream("session:bench", "stream-0").unwrap().read(After::Earliest, limits).unwrap();
        assert_eq!((read.gap, read.head_seq, read.events.len()), (None, Some(3_000), 3_001));
        assert!(read.events.iter().all(|event| event.kind == "message" && event.time > 0));
        assert_eq!((&read.events[2_999].payload[..], &read.events[3_000].payload[..]), (&b"[0]"[..], &b"[2]"[..]));
        let read = hub.stream("session:bench", "stream-1").unwrap().read(After::Earliest, limits).unwrap();
        assert_eq!((read.events.len(), &read.events[0].payload[..]), (1, &b"[1]"[..]));
        assert!(hub.close(Duration::from_secs(10)));
    }
}
