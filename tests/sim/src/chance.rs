//! Seeded chance.

use std::sync::{Mutex, PoisonError};

/// SplitMix64 (Steele, Lea and Flood, 2014): small, and the same on every machine. One seed, one sequence.
#[derive(Debug)]
pub(crate) struct Chance(Mutex<u64>);

impl Chance {
    /// The sequence of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(Mutex::new(seed))
    }

    /// Any number.
    pub(crate) fn number(&self) -> u64 {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 where there is none.
    pub(crate) fn below(&self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.number() % end }
    }

    /// A place in a list of that length.
    pub(crate) fn place(&self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    /// True so many times in a hundred.
    pub(crate) fn percent(&self, of_hundred: u64) -> bool {
        self.below(100) < of_hundred
    }

    /// One of a list.
    pub(crate) fn one_of<'a, T>(&self, list: &'a [T]) -> Option<&'a T> {
        list.get(self.place(list.len()))
    }
}
