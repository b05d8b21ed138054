//! What a stream keeps.

use crate::time::{StoreMillis, UnixMillis};

/// How much is kept, of each stream and of all together. Each limit is optional; whichever cuts first, cuts.
///
/// Events leave oldest first. Count is exact; bytes and age cut whole stored chunks, so up to one chunk more than the
/// limit stays. A stream's head, epoch and claims outlive its events.
///
/// When all streams together keep too much, closed streams go first: all but the last event of each, which is what they
/// came to, those closed longest first. Then goes what was committed first, of whatever stream. The newest chunk of all
/// stays under the byte limit.
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
    /// At most this many events of all streams.
    pub max_total_events: Option<u64>,
    /// At most this many bytes of all streams, as stored.
    pub max_total_bytes: Option<u64>,
}

/// What the streams of a store retain, or what of it has to go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Events.
    pub events: u64,
    /// Bytes as stored.
    pub bytes: u64,
}

impl Amount {
    /// Nothing.
    pub const NONE: Self = Self { events: 0, bytes: 0 };

    /// What is left once that is gone.
    pub fn less(self, gone: Self) -> Self {
        Self { events: self.events.saturating_sub(gone.events), bytes: self.bytes.saturating_sub(gone.bytes) }
    }
}

impl Default for Retention {
    /// 100,000 events, 64 MiB and 24 h a stream; one hour after close; 1 GiB in all.
    fn default() -> Self {
        Self {
            max_events: Some(100_000),
            max_bytes: Some(64 << 20),
            max_age_ms: Some(86_400_000),
            after_close_ms: Some(3_600_000),
            max_total_events: None,
            max_total_bytes: Some(1 << 30),
        }
    }
}

impl Retention {
    /// Keeps everything.
    pub const UNLIMITED: Self = Self {
        max_events: None,
        max_bytes: None,
        max_age_ms: None,
        after_close_ms: None,
        max_total_events: None,
        max_total_bytes: None,
    };

    /// How much of what all streams retain is too much.
    pub fn excess(&self, all: Amount) -> Amount {
        let over = |limit: Option<u64>, has: u64| limit.map_or(0, |limit| has.saturating_sub(limit));
        Amount { events: over(self.max_total_events, all.events), bytes: over(self.max_total_bytes, all.bytes) }
    }

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

/// The first sequence number a stream keeps when `excess` has to go, by what retention in total takes from it: no more than
/// needed, nothing from `last` on. `chunks` come oldest first, the first may begin before `earliest`. Answers what goes with
/// it, too: events exactly, bytes by whole chunks.
pub fn first_kept_of_all(
    excess: Amount,
    earliest: u64,
    last: u64,
    chunks: impl IntoIterator<Item = ChunkView>,
) -> (u64, Amount) {
    let (mut keep, mut left, mut gone) = (earliest, excess, Amount::NONE);
    for chunk in chunks {
        if left == Amount::NONE || keep >= last {
            break;
        }
        let end = chunk.first_seq + chunk.count;
        // Bytes go with a whole chunk only.
        let to = if left.bytes > 0 { end } else { end.min(keep.saturating_add(left.events)) }.min(last).max(keep);
        let went = Amount { events: to - keep, bytes: if to == end { chunk.bytes } else { 0 } };
        gone = Amount { events: gone.events + went.events, bytes: gone.bytes + went.bytes };
        left = left.less(went);
        keep = to;
    }
    (keep, gone)
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
    fn of_all_no_more_than_has_to_go() {
        let of = |events, bytes, last| first_kept_of_all(Amount { events, bytes }, 5, last, chunks());
        let amount = |events, bytes| Amount { events, bytes };
        assert_eq!(of(0, 0, 100), (5, Amount::NONE));
        assert_eq!(of(3, 0, 100), (8, amount(3, 0)), "inside the chunk");
        assert_eq!(of(5, 0, 100), (10, amount(5, 1_000)), "with which the chunk goes");
        assert_eq!(of(7, 0, 100), (12, amount(7, 1_000)));
        assert_eq!(of(0, 1, 100), (10, amount(5, 1_000)));
        assert_eq!(of(1, 1_001, 100), (20, amount(15, 2_000)));
        assert_eq!(of(16, 1_001, 100), (21, amount(16, 2_000)), "then only events have to go");
        assert_eq!(of(1_000, 0, 99), (99, amount(94, 9_000)), "not the last one");
        assert_eq!(of(0, 9_500, 99), (99, amount(94, 9_000)));
        assert_eq!(of(0, 9_500, 100), (100, amount(95, 10_000)));
    }

    #[test]
    fn excess_is_what_is_beyond_a_limit() {
        let limits = Retention { max_total_events: Some(10), max_total_bytes: Some(100), ..Retention::UNLIMITED };
        assert_eq!(limits.excess(Amount { events: 10, bytes: 100 }), Amount::NONE);
        assert_eq!(limits.excess(Amount { events: 12, bytes: 101 }), Amount { events: 2, bytes: 1 });
        assert_eq!(Retention::UNLIMITED.excess(Amount { events: u64::MAX, bytes: u64::MAX }), Amount::NONE);
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
