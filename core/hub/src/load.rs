//! Who has the slots for attempts.
//!
//! An endpoint that hangs holds its slots until its attempts time out, and nobody knows of it before. So that those which hang
//! at once do not hold up all others for that time, an attempt that turns out to be slow gives its slot back while it goes on:
//! it waits for the other side, which costs a connection. Those are counted as well, and are at most as many as there are slots.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use crate::notify::lock;

/// An attempt that has been open for so long, by the runtime's clock, is slow.
pub(crate) const SLOW: Duration = Duration::from_millis(500);

/// The attempts that are under way in this process.
#[derive(Clone, Default)]
pub(crate) struct Load {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// In the order in which they began.
    open: BTreeMap<u64, Open>,
    next: u64,
    /// How many of them are at endpoints for which nothing speaks.
    suspects: u32,
    /// How many have given their slot back.
    slow: u32,
}

struct Open {
    begun: Instant,
    suspect: bool,
    slow: bool,
}

/// One attempt, until this is dropped.
pub(crate) struct Slot {
    load: Load,
    number: u64,
}

/// How many slots are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) all: u32,
    /// Those of them at endpoints for which nothing speaks.
    pub(crate) suspects: u32,
}

impl State {
    fn count(&self) -> u32 {
        u32::try_from(self.open.len()).unwrap_or(u32::MAX)
    }

    fn taken(&self) -> u32 {
        self.count().saturating_sub(self.slow)
    }

    /// The attempts that may come to give their slots back, in the order in which they do.
    fn quick(&self) -> impl Iterator<Item = (&u64, &Open)> {
        // Suspects have a share of their own, which they fill and no more.
        self.open.iter().filter(|(_, open)| !open.slow && !open.suspect)
    }
}

impl Load {
    /// All attempts, those that have given their slot back included.
    pub(crate) fn all(&self) -> u32 {
        lock(&self.state).count()
    }

    /// An attempt begins `now`.
    pub(crate) fn begin(&self, suspect: bool, now: Instant) -> Slot {
        let mut state = lock(&self.state);
        let number = state.next;
        state.next += 1;
        state.suspects += u32::from(suspect);
        state.open.insert(number, Open { begun: now, suspect, slow: false });
        Slot { load: self.clone(), number }
    }

    /// Whether all of so many slots are taken.
    pub(crate) fn is_full(&self, slots: u32) -> bool {
        lock(&self.state).taken() >= slots
    }

    /// How many of so many slots are taken, without those of attempts that have `ended`. While less than half of them are free,
    /// attempts that are slow by `now` give theirs back first.
    pub(crate) fn taken<'a>(&self, slots: u32, ended: impl Iterator<Item = &'a Slot>, now: Instant) -> Taken {
        let mut state = lock(&self.state);
        let (mut all, mut suspects) = (0_u32, 0_u32);
        for open in ended.filter_map(|slot| state.open.get(&slot.number)) {
            all += u32::from(!open.slow);
            suspects += u32::from(open.suspect);
        }
        if state.taken().saturating_sub(all) > slots / 2 {
            let room = slots.saturating_sub(state.slow) as usize;
            let slow = state.quick().take_while(|(_, open)| now >= open.begun + SLOW).map(|(number, _)| *number);
            let slow: Vec<u64> = slow.take(room).collect();
            for number in slow {
                if let Some(open) = state.open.get_mut(&number) {
                    open.slow = true;
                    state.slow += 1;
                }
            }
        }
        Taken { all: state.taken().saturating_sub(all), suspects: state.suspects.saturating_sub(suspects) }
    }

    /// When the next attempt may give its slot back, where there are so many.
    pub(crate) fn next_slow(&self, slots: u32) -> Option<Instant> {
        let state = lock(&self.state);
        let first = state.quick().next().filter(|_| state.slow < slots);
        first.map(|(_, open)| open.begun + SLOW)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = lock(&self.load.state);
        if let Some(open) = state.open.remove(&self.number) {
            state.suspects -= u32::from(open.suspect);
            state.slow -= u32::from(open.slow);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none() -> std::iter::Empty<&'static Slot> {
        std::iter::empty()
    }

    #[test]
    fn a_slow_attempt_gives_its_slot_back_where_it_is_wanted() {
        let (load, begun) = (Load::default(), Instant::now());
        let first: Vec<_> = (0..4).map(|_| load.begin(false, begun)).collect();
        assert!(load.is_full(4));
        assert_eq!(load.next_slow(4), Some(begun + SLOW));
        let before = begun + SLOW - Duration::from_millis(1);
        assert_eq!(load.taken(4, none(), before), Taken { all: 4, suspects: 0 });
        let later = begun + SLOW;
        assert_eq!(load.taken(8, none(), later).all, 4, "half of them are free");
        assert_eq!(load.taken(4, none(), later).all, 0);
        assert_eq!((load.all(), load.is_full(4), load.next_slow(4)), (4, false, None));

        // As many again, and no more.
        let second: Vec<_> = (0..4).map(|_| load.begin(false, later)).collect();
        let much_later = later + SLOW;
        assert_eq!((load.taken(4, none(), much_later).all, load.next_slow(4)), (4, None));
        drop(first);
        assert_eq!(load.next_slow(4), Some(much_later));
        assert_eq!(load.taken(4, none(), much_later).all, 0);
        drop(second);
        assert_eq!((load.all(), load.taken(4, none(), much_later)), (0, Taken { all: 0, suspects: 0 }));
    }

    #[test]
    fn suspects_keep_theirs_and_what_has_ended_is_free() {
        let (load, begun) = (Load::default(), Instant::now());
        let (suspect, mine) = (load.begin(true, begun), load.begin(false, begun));
        let now = begun + SLOW;
        assert_eq!(load.taken(2, std::iter::once(&mine), now), Taken { all: 1, suspects: 1 });
        assert_eq!(load.taken(2, none(), now), Taken { all: 1, suspects: 1 }, "the other one is slow");
        assert_eq!(load.taken(2, std::iter::once(&mine), now).all, 1, "and had no slot to give back");
        assert_eq!(load.taken(2, [&suspect, &mine].into_iter(), now), Taken { all: 0, suspects: 0 });
    }
}
