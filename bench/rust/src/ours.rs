//! Our side: a hub on a SQLite file, owned writers, a flush after each append.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidings::{Durability, Hub, Writer};

use crate::Result;
use crate::producers::Target;

/// A hub with so many streams.
#[derive(Clone)]
pub struct Ours {
    hub: Hub,
    writers: Arc<[Writer]>,
    durability: Durability,
}

impl Ours {
    /// Opens the hub at `db`, which must not exist, with default options.
    pub fn open(db: &Path, streams: usize, durability: Durability) -> Result<Self> {
        let db = db.to_str().ok_or("the path of the bench's directory is not UTF-8")?;
        let hub = Hub::open(&format!("sqlite:{db}"))?;
        hub.ensure_open()?;
        let writers: std::result::Result<Arc<[_]>, _> =
            (0..streams).map(|n| hub.new_writer("session:bench", format!("stream-{n}"))).collect();
        Ok(Self { writers: writers?, hub, durability })
    }

    /// Flushes and closes.
    pub fn close(self) -> Result<()> {
        let (stats, done) = (self.hub.stats(), self.hub.close(Duration::from_secs(10)));
        if !done || stats.lost > 0 || stats.refused > 0 {
            return Err(format!("the hub did not commit all: {stats:?}").into());
        }
        Ok(())
    }
}

impl Target for Ours {
    async fn append(&self, stream: usize, payload: &[u8]) -> Result<()> {
        let writer = &self.writers[stream];
        writer.append("message", payload, None)?;
        Ok(writer.flush(self.durability).await?)
    }

    async fn burst(&self, count: usize, payload: &[u8]) -> Result<Duration> {
        let begun = Instant::now();
        for _ in 0..count {
            self.writers[0].append("message", payload, None)?;
        }
        let handed_over = begun.elapsed();
        self.writers[0].flush(self.durability).await?;
        Ok(handed_over)
    }
}
