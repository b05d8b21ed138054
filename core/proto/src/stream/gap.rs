//! The rule that decides whether a reader may go on from where it stands.

use super::Cursor;

/// Why a resume cannot be complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GapReason {
    /// Events after the cursor were dropped by retention.
    Evicted,
    /// The cursor names events that a crash took back; the same numbers may since name other events.
    Regressed,
    /// Events were given up while the store was down; a tombstone stands over their range.
    Lost,
    /// No such stream in this scope, or no cursor of ours. Tells nothing about other scopes.
    Unknown,
}

impl GapReason {
    /// The reason's name on the wire and in every binding.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Evicted => "evicted",
            Self::Regressed => "regressed",
            Self::Lost => "lost",
            Self::Unknown => "unknown",
        }
    }
}

/// The truthful answer when a resume cannot be complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Why.
    pub reason: GapReason,
    /// The sequence number from which a reader can go on without another gap; head + 1 when nothing is retained;
    /// `None` for `unknown`.
    pub earliest_seq: Option<u64>,
    /// The sequence number of the newest event ever committed; `None` for `unknown` and for a stream that never had one.
    pub head_seq: Option<u64>,
}

impl Gap {
    /// The gap that names no stream.
    pub const UNKNOWN: Self = Self { reason: GapReason::Unknown, earliest_seq: None, head_seq: None };
}

/// What a store knows of a stream when a reader comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamView {
    /// The current history.
    pub epoch: u32,
    /// The newest claim.
    pub claim: u32,
    /// First retained sequence number; equal to `next_seq` when nothing is retained.
    pub earliest: u64,
    /// The number the next committed event will get. Outlives evicted events.
    pub next_seq: u64,
    /// The first sequence number of the claim that follows the cursor's claim, if one does.
    pub next_claim_first: Option<u64>,
    /// The newest claim's writer is alive, so numbers at or above `next_seq` may still be on their way to the store.
    pub owner_alive: bool,
}

/// Whether and from where a reader may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// Read on from this sequence number.
    From(u64),
    /// Tell this gap first; then the reader may go on from `earliest_seq`.
    Gap(Gap),
}

fn gap(reason: GapReason, view: &StreamView) -> Resume {
    Resume::Gap(Gap { reason, earliest_seq: Some(view.earliest), head_seq: view.next_seq.checked_sub(1) })
}

/// Decides for a cursor.
///
/// A cursor is good if its epoch matches and its seq lies before the first seq of the claim after its own; otherwise
/// events it names were lost with their claim, and the answer is `regressed`, never a silent hole (DESIGN section 4).
/// Beyond the committed head it is good only while the claim's own writer lives, for then its event is still on the way.
pub fn check(cursor: &Cursor, view: &StreamView) -> Resume {
    let lost_with_its_claim = view.next_claim_first.is_some_and(|first| cursor.next > first);
    let never_committed = cursor.next > view.next_seq && !(cursor.claim == view.claim && view.owner_alive);
    if cursor.epoch != view.epoch || cursor.claim > view.claim || lost_with_its_claim || never_committed {
        return gap(GapReason::Regressed, view);
    }
    if cursor.next < view.earliest {
        return gap(GapReason::Evicted, view);
    }
    Resume::From(cursor.next)
}

/// Decides for a bare exclusive `after` (SEP-2694), which only ever named committed events; `None` reads from the
/// earliest retained event. `Err` carries the head: `after` lies beyond it.
pub fn check_bare(after: Option<u64>, view: &StreamView) -> Result<Resume, Option<u64>> {
    let Some(after) = after else { return Ok(Resume::From(view.earliest)) };
    if after >= view.next_seq {
        return Err(view.next_seq.checked_sub(1));
    }
    Ok(if after + 1 < view.earliest { gap(GapReason::Evicted, view) } else { Resume::From(after + 1) })
}

#[cfg(test)]
mod tests {
    use super::super::StreamId;
    use super::*;

    const VIEW: StreamView =
        StreamView { epoch: 1, claim: 2, earliest: 50, next_seq: 100, next_claim_first: None, owner_alive: false };

    fn at(epoch: u32, claim: u32, next: u64) -> Cursor {
        Cursor { stream: StreamId([7; 16]), epoch, claim, next }
    }

    fn told(reason: GapReason) -> Resume {
        Resume::Gap(Gap { reason, earliest_seq: Some(50), head_seq: Some(99) })
    }

    /// Field case B14: retained 50..=99.
    #[test]
    fn inside_and_outside_what_is_retained() {
        assert_eq!(check(&at(1, 2, 11), &VIEW), told(GapReason::Evicted));
        assert_eq!(check(&at(1, 2, 49), &VIEW), told(GapReason::Evicted));
        assert_eq!(check(&at(1, 2, 50), &VIEW), Resume::From(50));
        assert_eq!(check(&at(1, 2, 100), &VIEW), Resume::From(100));
        assert_eq!(check(&at(1, 2, 101), &VIEW), told(GapReason::Regressed));
        assert_eq!(check(&at(1, 2, 5001), &VIEW), told(GapReason::Regressed));
    }

    /// Field case B17: a position of another history is never served from this one.
    #[test]
    fn another_history() {
        assert_eq!(check(&at(2, 2, 60), &VIEW), told(GapReason::Regressed));
        assert_eq!(check(&at(1, 3, 60), &VIEW), told(GapReason::Regressed));
    }

    #[test]
    fn beyond_the_head_only_while_its_own_writer_lives() {
        let alive = StreamView { owner_alive: true, ..VIEW };
        assert_eq!(check(&at(1, 2, 120), &alive), Resume::From(120));
        assert_eq!(check(&at(1, 1, 120), &alive), told(GapReason::Regressed));
    }

    /// The old writer numbered up to 89 and died; the next claim began at 80, so 80..=89 now name other events.
    #[test]
    fn what_a_lost_commit_took_back() {
        let view = StreamView { next_claim_first: Some(80), ..VIEW };
        assert_eq!(check(&at(1, 1, 79), &view), Resume::From(79));
        assert_eq!(check(&at(1, 1, 80), &view), Resume::From(80));
        assert_eq!(check(&at(1, 1, 81), &view), told(GapReason::Regressed));
        assert_eq!(check(&at(1, 1, 20), &view), told(GapReason::Evicted));
    }

    #[test]
    fn nothing_retained_is_not_loss() {
        let empty = StreamView { earliest: 100, ..VIEW };
        assert_eq!(check(&at(1, 2, 100), &empty), Resume::From(100));
        let gap = Gap { reason: GapReason::Evicted, earliest_seq: Some(100), head_seq: Some(99) };
        assert_eq!(check(&at(1, 2, 99), &empty), Resume::Gap(gap));
        let fresh = StreamView { earliest: 0, next_seq: 0, claim: 1, ..VIEW };
        assert_eq!(check(&at(1, 1, 0), &fresh), Resume::From(0));
    }

    #[test]
    fn bare_after_is_exclusive() {
        assert_eq!(check_bare(None, &VIEW), Ok(Resume::From(50)));
        assert_eq!(check_bare(Some(48), &VIEW), Ok(told(GapReason::Evicted)));
        assert_eq!(check_bare(Some(49), &VIEW), Ok(Resume::From(50)));
        assert_eq!(check_bare(Some(99), &VIEW), Ok(Resume::From(100)));
        assert_eq!(check_bare(Some(100), &VIEW), Err(Some(99)));
        assert_eq!(check_bare(Some(0), &StreamView { earliest: 0, next_seq: 0, ..VIEW }), Err(None));
    }
}
