//! Events packed as they are stored: one chunk is what one commit adds to one stream.
//!
//! Layout, all numbers little-endian; `type` and `identity` lengths are 0 when they equal those of the event before:
//!
//! ```text
//! event := flags u8 | time i64 | type_len u16 | identity_len u16 | payload_len u32 | type | identity | payload
//! ```

use std::ops::Range;

use bytes::Bytes;
use tidings_proto::time::UnixMillis;

const HEADER: usize = 17;
/// The event has the type of the one before it in the chunk.
const SAME_TYPE: u8 = 1;
/// The event has an identity; without the flag it has none.
const HAS_IDENTITY: u8 = 2;
/// The identity equals that of the event before it in the chunk.
const SAME_IDENTITY: u8 = 4;

/// Who and what an event belongs to, as JSON text of an object with the members `task`, `session`, `turn`, `toolCall`,
/// `sourceType` (all optional), kept as given. Lets a client rebuild a transcript.
pub type Identity = Bytes;

/// An event that has no number yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// What it is, at most 65,535 bytes of UTF-8.
    pub kind: String,
    /// JSON text, kept byte for byte.
    pub payload: Bytes,
    /// Wall time at which it was given to us.
    pub time: UnixMillis,
    /// Who and what it belongs to.
    pub identity: Option<Identity>,
}

/// One event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its number in the stream, from 0, without holes.
    pub seq: u64,
    /// What it is.
    pub kind: String,
    /// JSON text as it was given.
    pub payload: Bytes,
    /// Wall time at which it was given to us.
    pub time: UnixMillis,
    /// Who and what it belongs to.
    pub identity: Option<Identity>,
}

/// Several consecutive events of one stream, or a tombstone over events that had to be given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Sequence number of the first event.
    pub first_seq: u64,
    /// How many events.
    pub count: u32,
    /// Wall time of the newest event.
    pub last_time: UnixMillis,
    /// Packed events; `None` for a tombstone (gap `lost`).
    pub data: Option<Bytes>,
}

impl Chunk {
    /// A tombstone over `count` events from `first_seq`.
    pub fn lost(first_seq: u64, count: u32, time: UnixMillis) -> Self {
        Self { first_seq, count, last_time: time, data: None }
    }

    /// The number after its last event.
    pub fn end(&self) -> u64 {
        self.first_seq + u64::from(self.count)
    }

    /// Bytes as stored.
    pub fn weight(&self) -> u64 {
        self.data.as_ref().map_or(0, |data| data.len() as u64)
    }

    /// How many of its events a reader gets who starts at `from`, and about how many bytes they are.
    pub fn rest(&self, from: u64) -> (u64, u64) {
        let events = self.end().saturating_sub(from.max(self.first_seq));
        (events, self.weight().saturating_mul(events) / u64::from(self.count.max(1)))
    }

    /// At most so many events a reader finds who starts at `from`, whatever the count says: none is smaller than its header.
    pub fn holds(&self, from: u64) -> usize {
        let most = self.data.as_ref().map_or(0, |data| data.len() / HEADER);
        usize::try_from(self.rest(from).0).map_or(most, |rest| rest.min(most))
    }

    /// Its events in order, without copying payloads. Empty for a tombstone.
    pub fn events(&self) -> ChunkEvents {
        self.events_from(self.first_seq)
    }

    /// Its events from that number on. Those before it are stepped over without being made.
    pub fn events_from(&self, seq: u64) -> ChunkEvents {
        let mut events = ChunkEvents {
            data: self.data.clone().unwrap_or_default(),
            at: 0,
            seq: self.first_seq,
            kind_at: 0..0,
            kind: None,
            identity: None,
        };
        while events.seq < seq && events.step().is_some() {}
        events
    }
}

/// Packs events one after the other; one allocation grows for all of them.
#[derive(Debug, Default)]
pub struct ChunkBuilder {
    data: Vec<u8>,
    count: u32,
    last_time: UnixMillis,
    last_kind: String,
    last_identity: Option<Identity>,
}

impl ChunkBuilder {
    /// Whether [`push`](Self::push) can take an event of that size.
    pub fn can_take(kind: &str, payload: &[u8], identity: Option<&Identity>) -> bool {
        let identity_len = identity.map_or(0, |identity| identity.len());
        u16::try_from(kind.len()).is_ok() && u16::try_from(identity_len).is_ok() && u32::try_from(payload.len()).is_ok()
    }

    /// Adds one event. `kind` and `identity` must be at most 65,535 bytes, `payload` at most 4 GiB − 1; the hub checks
    /// that before anything is numbered, here longer ones would be cut to nothing and are refused by returning `false`.
    #[must_use]
    pub fn push(&mut self, kind: &str, payload: &[u8], time: UnixMillis, identity: Option<&Identity>) -> bool {
        let identity_len = identity.map_or(0, |identity| identity.len());
        let (Ok(kind_len), Ok(identity_len), Ok(payload_len)) =
            (u16::try_from(kind.len()), u16::try_from(identity_len), u32::try_from(payload.len()))
        else {
            return false;
        };
        let same_kind = self.count > 0 && self.last_kind == kind;
        let same_identity = identity.is_some() && self.last_identity.as_ref() == identity;
        let flags = if same_kind { SAME_TYPE } else { 0 }
            | if identity.is_some() { HAS_IDENTITY } else { 0 }
            | if same_identity { SAME_IDENTITY } else { 0 };
        let kind_len = if same_kind { 0 } else { kind_len };
        let identity_len = if same_identity { 0 } else { identity_len };

        self.data.reserve(HEADER + usize::from(kind_len) + usize::from(identity_len) + payload.len());
        self.data.push(flags);
        self.data.extend_from_slice(&time.to_le_bytes());
        self.data.extend_from_slice(&kind_len.to_le_bytes());
        self.data.extend_from_slice(&identity_len.to_le_bytes());
        self.data.extend_from_slice(&payload_len.to_le_bytes());
        if !same_kind {
            self.data.extend_from_slice(kind.as_bytes());
            self.last_kind.clear();
            self.last_kind.push_str(kind);
        }
        if let (Some(identity), false) = (identity, same_identity) {
            self.data.extend_from_slice(identity);
            self.last_identity = Some(identity.clone());
        }
        self.data.extend_from_slice(payload);
        self.count += 1;
        self.last_time = if self.count == 1 { time } else { self.last_time.max(time) };
        true
    }

    /// How many events it holds.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// How many bytes it holds.
    pub fn weight(&self) -> usize {
        self.data.len()
    }

    /// The chunk, whose first event gets `first_seq`; the builder is empty again.
    pub fn take(&mut self, first_seq: u64) -> Chunk {
        let built = std::mem::take(self);
        Chunk { first_seq, count: built.count, last_time: built.last_time, data: Some(built.data.into()) }
    }
}

/// Iterates over the events of a chunk. Stops early at bytes that no [`ChunkBuilder`] wrote.
#[derive(Clone, Debug)]
pub struct ChunkEvents {
    data: Bytes,
    at: usize,
    seq: u64,
    /// Where the newest type stands, and its text once an event was made of it.
    kind_at: Range<usize>,
    kind: Option<String>,
    /// Where the newest identity stands.
    identity: Option<Range<usize>>,
}

/// One event's fixed part.
struct Step {
    flags: u8,
    time: UnixMillis,
    payload: Range<usize>,
}

impl ChunkEvents {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = self.data.get(self.at..self.at + N)?.try_into().ok()?;
        self.at += N;
        Some(bytes)
    }

    fn range(&mut self, len: usize) -> Option<Range<usize>> {
        let end = self.at.checked_add(len).filter(|end| *end <= self.data.len())?;
        Some(std::mem::replace(&mut self.at, end)..end)
    }

    /// Goes past the next event.
    fn step(&mut self) -> Option<Step> {
        let [flags] = self.take::<1>()?;
        let time = UnixMillis::from_le_bytes(self.take()?);
        let kind_len = u16::from_le_bytes(self.take()?);
        let identity_len = u16::from_le_bytes(self.take()?);
        let payload_len = u32::from_le_bytes(self.take()?);
        let kind = self.range(usize::from(kind_len))?;
        let identity = self.range(usize::from(identity_len))?;
        let payload = self.range(usize::try_from(payload_len).ok()?)?;
        if flags & SAME_TYPE == 0 {
            self.kind_at = kind;
            self.kind = None;
        }
        if flags & (HAS_IDENTITY | SAME_IDENTITY) == HAS_IDENTITY {
            self.identity = Some(identity);
        }
        self.seq += 1;
        Some(Step { flags, time, payload })
    }
}

impl Iterator for ChunkEvents {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let seq = self.seq;
        let Step { flags, time, payload } = self.step()?;
        let kind = match &self.kind {
            Some(kind) => kind.clone(),
            None => {
                let text = std::str::from_utf8(self.data.get(self.kind_at.clone())?).ok()?;
                self.kind.insert(text.to_owned()).clone()
            }
        };
        let identity = (flags & HAS_IDENTITY != 0).then(|| self.identity.clone()).flatten();
        Some(Event {
            seq,
            kind,
            payload: self.data.slice(payload),
            time,
            identity: identity.map(|identity| self.data.slice(identity)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packs_and_unpacks() {
        let id = Bytes::from_static(br#"{"task":"t"}"#);
        let events: [(&str, &[u8], i64, Option<&Bytes>); 6] = [
            ("message", b"1.0", 5, None),
            ("message", "\"\u{2028}\"".as_bytes(), 6, Some(&id)),
            ("message", br#""\ud800""#, 7, Some(&id)),
            ("other", b"9007199254740993", 3, None),
            ("", b"", -1, Some(&id)),
            ("message", &[b'x'; 70_000], 8, None),
        ];
        let mut builder = ChunkBuilder::default();
        for (kind, payload, time, identity) in events {
            assert!(builder.push(kind, payload, time, identity));
        }
        let chunk = builder.take(100);
        assert_eq!((chunk.first_seq, chunk.count, chunk.last_time, chunk.end()), (100, 6, 8, 106));
        assert_eq!((builder.count(), builder.weight()), (0, 0));
        let unpacked: Vec<_> = chunk.events().collect();
        assert_eq!(unpacked.len(), 6);
        for (i, (event, (kind, payload, time, identity))) in unpacked.iter().zip(events).enumerate() {
            assert_eq!(event.seq, 100 + i as u64);
            assert_eq!((event.kind.as_str(), &event.payload[..], event.time), (kind, payload, time));
            assert_eq!(event.identity.as_ref(), identity);
        }
    }

    #[test]
    fn begins_at_any_event() {
        let ids = [None, Some(Bytes::from_static(b"{}")), Some(Bytes::from_static(b"{\"task\":\"t\"}"))];
        let mut builder = ChunkBuilder::default();
        for n in 0..30_usize {
            let (kind, id) = (["a", "bb", "ccc"][n / 7 % 3], ids[n / 4 % 3].as_ref());
            assert!(builder.push(kind, n.to_string().as_bytes(), n as i64, id));
        }
        let chunk = builder.take(5);
        let all: Vec<_> = chunk.events().collect();
        for from in 0..40 {
            let want: Vec<_> = all.iter().filter(|event| event.seq >= from).cloned().collect();
            assert_eq!(chunk.events_from(from).collect::<Vec<_>>(), want, "from {from}");
            assert_eq!(chunk.holds(from), want.len(), "from {from}");
        }
    }

    #[test]
    fn refuses_what_does_not_fit_its_lengths() {
        let mut builder = ChunkBuilder::default();
        assert!(!builder.push(&"k".repeat(65_536), b"", 0, None));
        assert!(!builder.push("k", b"", 0, Some(&Bytes::from(vec![b' '; 65_536]))));
        assert_eq!((builder.count(), builder.weight()), (0, 0));
    }

    #[test]
    fn damaged_bytes_end_early_without_a_panic() {
        let mut builder = ChunkBuilder::default();
        assert!(builder.push("message", b"{}", 0, None));
        let whole = builder.take(0).data.expect("packed");
        for cut in 0..whole.len() {
            let chunk = Chunk { first_seq: 0, count: 1, last_time: 0, data: Some(whole.slice(..cut)) };
            assert_eq!(chunk.events().count(), 0, "cut at {cut}");
        }
        let counted = Chunk { first_seq: 0, count: u32::MAX, last_time: 0, data: Some(whole) };
        assert_eq!(counted.holds(0), 1, "a count that is damaged asks for no memory");
        assert_eq!(Chunk::lost(0, 9, 0).holds(0), 0);
        let junk = Chunk { first_seq: 0, count: 1, last_time: 0, data: Some(Bytes::from(vec![0xff; 64])) };
        assert_eq!(junk.events().count(), 0);
    }
}
