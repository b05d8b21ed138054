//! What a stream keeps.

use crate::time::{StoreMillis, UnixMillis};

/// How much of a stream is kept. Each limit is optional; whichever cuts first, cuts.
///
/// Events leave oldest first. Count is exact; bytes and age cut whole stored chunks, so up to one chunk more than the
/// limit stays. A stream's head, epoch and claims outlive its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// At most this many events.
    pub max_events: Option<u64>,
    /// At most this many bytes as stored (payload, type and identity).
    pub max_bytes: Option<u64>,
    /// No event older than this many milliseconds.
    pub max_age_ms: Option<u64>,
    /// The whole stream goes this many milliseconds after it was closed.
    pub after_close_ms: Option<u64>,
}

impl Default for Retention {
    /// 100,000 events, 64 MiB and 24 h a stream; one hour after close.
    fn default() -> Self {
        Self {
            max_events: Some(100_000),
            max_bytes: Some(64 << 20),
            max_age_ms: Some(86_400_000),
            after_close_ms: Some(3_600_000),
        }
    }
}

impl Retention {
    /// Keeps everything.
    pub const UNLIMITED: Self = Self { max_events: None, max_bytes: None, max_age_ms: None, after_close_ms: None };

    /// Whether a stream closed at `closed_at` may go entirely at `now`.
    pub fn stream_expired(&self, closed_at: Option<StoreMillis>, now: StoreMillis) -> bool {
        match (self.after_close_ms, closed_at) {
            (Some(ms), Some(at)) => now.saturating_sub(at) >= i64::try_from(ms).unwrap_or(i64::MAX),
            _ => false,
        }
    }
}

/// One stored chunk, as retention sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkView {
    /// Sequence number of its first event.
    pub first_seq: u64,
    /// Number of events.
    pub count: u64,
    /// Bytes as stored.
    pub bytes: u64,
    /// Wall time of its newest event.
    pub last_time: UnixMillis,
}

/// The first sequence number to keep. `chunks` come oldest first and are pulled only as far as something is cut;
/// `next_seq` is the number after the head, `total_bytes` what all retained chunks weigh.
///
/// The newest chunk always stays under the byte limit: a single event larger than the limit is kept until a newer one comes.
pub fn first_kept(
    retention: &Retention,
    now: UnixMillis,
    earliest: u64,
    next_seq: u64,
    total_bytes: u64,
    chunks: impl IntoIterator<Item = ChunkView>,
) -> u64 {
    let by_count = retention.max_events.map_or(0, |max| next_seq.saturating_sub(max));
    let mut keep = earliest.max(by_count).min(next_seq);
    let mut bytes = total_bytes;
    for chunk in chunks {
        let end = chunk.first_seq + chunk.count;
        let too_heavy = retention.max_bytes.is_some_and(|max| bytes > max) && end < next_seq;
        let too_old = retention
            .max_age_ms
            .is_some_and(|max| now.saturating_sub(chunk.last_time) > i64::try_from(max).unwrap_or(i64::MAX));
        if end > keep && !too_heavy && !too_old {
            break;
        }
        keep = keep.max(end);
        bytes = bytes.saturating_sub(chunk.bytes);
    }
    keep
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks() -> Vec<ChunkView> {
        (0..10).map(|i| ChunkView { first_seq: i * 10, count: 10, bytes: 1000, last_time: i as i64 * 1000 }).collect()
    }

    fn kept(retention: Retention, now: i64) -> u64 {
        first_kept(&retention, now, 0, 100, 10_000, chunks())
    }

    #[test]
    fn by_count_is_exact() {
        let keep = |max| kept(Retention { max_events: Some(max), ..Retention::UNLIMITED }, 0);
        assert_eq!(keep(1000), 0);
        assert_eq!(keep(100), 0);
        assert_eq!(keep(99), 1);
        assert_eq!(keep(35), 65);
        assert_eq!(keep(0), 100);
    }

    #[test]
    fn by_bytes_cuts_whole_chunks_and_keeps_the_newest() {
        let keep = |max| kept(Retention { max_bytes: Some(max), ..Retention::UNLIMITED }, 0);
        assert_eq!(keep(10_000), 0);
        assert_eq!(keep(9_999), 10);
        assert_eq!(keep(4_500), 60);
        assert_eq!(keep(0), 90);
    }

    #[test]
    fn by_age_cuts_whole_chunks() {
        let keep = |age, now| kept(Retention { max_age_ms: Some(age), ..Retention::UNLIMITED }, now);
        assert_eq!(keep(9_000, 9_000), 0);
        assert_eq!(keep(8_999, 9_000), 10);
        assert_eq!(keep(1, 1_000_000), 100);
        assert_eq!(keep(1_000, -5_000), 0, "a wall clock set back evicts nothing");
    }

    #[test]
    fn whichever_cuts_first() {
        let both = Retention { max_events: Some(70), max_bytes: Some(5_000), ..Retention::UNLIMITED };
        assert_eq!(kept(both, 0), 50);
        let count_wins = Retention { max_events: Some(20), max_bytes: Some(5_000), ..Retention::UNLIMITED };
        assert_eq!(kept(count_wins, 0), 80);
    }

    #[test]
    fn after_close() {
        let retention = Retention { after_close_ms: Some(100), ..Retention::UNLIMITED };
        assert!(!retention.stream_expired(None, 1_000_000));
        assert!(!retention.stream_expired(Some(50), 149));
        assert!(retention.stream_expired(Some(50), 150));
        assert!(!Retention::UNLIMITED.stream_expired(Some(50), i64::MAX));
    }
}
