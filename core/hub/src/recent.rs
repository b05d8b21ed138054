//! What was committed last of a stream that somebody here reads live: a tail then need not read back what this process
//! has just written.

use std::collections::VecDeque;

use tidings_store::{Chunk, ReadLimits};

/// Of one stream at most so many bytes are kept …
const STREAM_BYTES: usize = 1 << 20;
/// … and of all together.
pub(crate) const ALL_BYTES: usize = 32 << 20;

/// The newest chunks of one stream, without holes: what one claim of this process committed.
#[derive(Default)]
pub(crate) struct Recent {
    claim: u32,
    chunks: VecDeque<Chunk>,
    bytes: usize,
    closed: bool,
}

/// What a tail gets of them.
pub(crate) struct Found {
    /// The first holds the number that was asked for.
    pub(crate) chunks: Vec<Chunk>,
    /// The number after the newest event.
    pub(crate) end: u64,
    /// Nothing comes after it.
    pub(crate) closed: bool,
}

impl Recent {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A commit is done. With `room` for so many bytes in all; what does not fit is read from the store.
    pub(crate) fn add(&mut self, claim: u32, chunks: &[Chunk], closed: bool, room: usize) {
        let follows = self.claim == claim && self.chunks.back().map(Chunk::end) == chunks.first().map(|c| c.first_seq);
        // Tombstones are for the store to tell.
        if !follows || chunks.iter().any(|chunk| chunk.data.is_none()) {
            self.clear();
        }
        if chunks.iter().any(|chunk| chunk.data.is_none()) {
            return;
        }
        self.claim = claim;
        self.closed = closed;
        for chunk in chunks {
            self.bytes += weight(chunk);
            self.chunks.push_back(chunk.clone());
        }
        while self.bytes > STREAM_BYTES.min(room)
            && let Some(oldest) = self.chunks.pop_front()
        {
            self.bytes -= weight(&oldest);
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// What is there from `next` on, for a reader who knows of this claim.
    pub(crate) fn find(&self, claim: u32, next: u64, limits: ReadLimits) -> Option<Found> {
        let (first, last) = (self.chunks.front()?, self.chunks.back()?);
        if claim != self.claim || next < first.first_seq || next >= last.end() {
            return None;
        }
        let from = self.chunks.partition_point(|chunk| chunk.end() <= next);
        let (mut events, mut bytes, mut chunks) = (0, 0, Vec::new());
        for chunk in self.chunks.range(from..) {
            if !chunks.is_empty() && (events >= u64::from(limits.events) || bytes >= limits.bytes) {
                break;
            }
            let rest = chunk.rest(next);
            events += rest.0;
            bytes += rest.1;
            chunks.push(chunk.clone());
        }
        Some(Found { chunks, end: last.end(), closed: self.closed })
    }
}

fn weight(chunk: &Chunk) -> usize {
    usize::try_from(chunk.weight()).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidings_store::ChunkBuilder;

    const ALL: ReadLimits = ReadLimits { events: u32::MAX, bytes: u64::MAX };

    fn chunk(first_seq: u64, count: usize, size: usize) -> Chunk {
        let mut builder = ChunkBuilder::default();
        for _ in 0..count {
            assert!(builder.push("m", &vec![b'1'; size], 0, None));
        }
        builder.take(first_seq)
    }

    fn found(recent: &Recent, claim: u32, next: u64) -> Option<(Vec<u64>, u64, bool)> {
        let found = recent.find(claim, next, ALL)?;
        Some((found.chunks.iter().map(|chunk| chunk.first_seq).collect(), found.end, found.closed))
    }

    #[test]
    fn what_follows_on_each_other_is_there() {
        let mut recent = Recent::default();
        assert_eq!(found(&recent, 1, 0), None);
        recent.add(1, &[chunk(10, 5, 1), chunk(15, 5, 1)], false, ALL_BYTES);
        recent.add(1, &[chunk(20, 1, 1)], false, ALL_BYTES);
        assert_eq!(found(&recent, 1, 9), None, "older than what is kept");
        assert_eq!(found(&recent, 1, 10), Some((vec![10, 15, 20], 21, false)));
        assert_eq!(found(&recent, 1, 17), Some((vec![15, 20], 21, false)));
        assert_eq!(found(&recent, 1, 21), None, "not there yet");
        assert_eq!(found(&recent, 2, 10), None, "of another claim");
        recent.add(1, &[chunk(21, 1, 1)], true, ALL_BYTES);
        assert_eq!(found(&recent, 1, 21), Some((vec![21], 22, true)));
        // From 12 on the first chunk has three events.
        for (events, chunks) in [(3, 1), (4, 2), (8, 2), (9, 3)] {
            let limits = ReadLimits { events, bytes: u64::MAX };
            assert_eq!(recent.find(1, 12, limits).map(|found| found.chunks.len()), Some(chunks), "{events}");
        }
        let limits = ReadLimits { events: 6, bytes: 1 };
        assert_eq!(recent.find(1, 12, limits).map(|found| found.chunks.len()), Some(1));
    }

    #[test]
    fn a_hole_another_claim_or_a_tombstone_begins_anew() {
        let mut recent = Recent::default();
        recent.add(1, &[chunk(0, 5, 1)], false, ALL_BYTES);
        recent.add(1, &[chunk(6, 1, 1)], false, ALL_BYTES);
        assert_eq!((found(&recent, 1, 0), found(&recent, 1, 6).is_some()), (None, true));
        recent.add(2, &[chunk(7, 1, 1)], false, ALL_BYTES);
        assert_eq!((found(&recent, 1, 6), found(&recent, 2, 7).is_some()), (None, true));
        recent.add(2, &[Chunk::lost(8, 3, 0), chunk(11, 1, 1)], false, ALL_BYTES);
        assert_eq!((found(&recent, 2, 7), found(&recent, 2, 11)), (None, None));
    }

    #[test]
    fn it_is_bounded() {
        let mut recent = Recent::default();
        for n in 0..10 {
            recent.add(1, &[chunk(n, 1, 300 << 10)], false, ALL_BYTES);
            assert!(recent.bytes() <= STREAM_BYTES);
        }
        assert_eq!(found(&recent, 1, 7).map(|found| found.0), Some(vec![7, 8, 9]));
        recent.add(1, &[chunk(10, 1, 300 << 10)], false, 400 << 10);
        assert_eq!(found(&recent, 1, 10).map(|found| found.0), Some(vec![10]));
        recent.add(1, &[chunk(11, 1, 1)], false, 0);
        assert_eq!((recent.bytes(), found(&recent, 1, 11)), (0, None));
        recent.add(1, &[chunk(12, 1, 2 << 20)], false, ALL_BYTES);
        assert_eq!(found(&recent, 1, 12), None, "larger than all that is kept");
    }
}
