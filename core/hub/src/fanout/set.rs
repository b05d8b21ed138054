//! Things with keys that are never used twice, and sets of such keys that cost nothing to leave.

/// How many bits of a generation count how often a slot was used. The bits above are the table's.
const USES: u32 = 21;
/// So many tables, one after the other, have no key in common.
const TABLES: u32 = 1 << (GENERATION_BITS - USES);
/// Bits of a generation, and of an index: together they are a whole number that every language keeps exactly, also those whose
/// numbers are doubles.
pub(super) const GENERATION_BITS: u32 = 29;
pub(super) const INDEX_BITS: u32 = 24;

/// Names one thing of a [`Table`], for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl Key {
    /// Whether it may be of that table.
    pub(super) fn is_of(self, table: u32) -> bool {
        self.generation >> USES == table % TABLES
    }
}

/// Things by key.
#[derive(Debug)]
pub(super) struct Table<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    first: u32,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Table<T> {
    /// The table of that number, whose keys are no other's.
    pub(super) fn new(number: u32) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), first: (number % TABLES) << USES }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn add(&mut self, value: T) -> Key {
        if let Some(index) = self.free.pop()
            && let Some(slot) = self.slots.get_mut(index as usize)
        {
            slot.value = Some(value);
            return Key { index, generation: slot.generation };
        }
        // 2^24 connections at a time do not occur.
        let index = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        self.slots.push(Slot { generation: self.first, value: Some(value) });
        Key { index, generation: self.first }
    }

    pub(super) fn get(&self, key: Key) -> Option<&T> {
        let slot = self.slots.get(key.index as usize)?;
        if slot.generation == key.generation { slot.value.as_ref() } else { None }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        if slot.generation == key.generation { slot.value.as_mut() } else { None }
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        if slot.generation != key.generation {
            return None;
        }
        let value = slot.value.take()?;
        // A slot whose generations are used up stays empty.
        let next = slot.generation + 1;
        if next >> USES == self.first >> USES {
            slot.generation = next;
            self.free.push(key.index);
        }
        Some(value)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = Key> {
        let slots = self.slots.iter().enumerate().filter(|(_, slot)| slot.value.is_some());
        slots.map(|(index, slot)| Key { index: u32::try_from(index).unwrap_or(u32::MAX), generation: slot.generation })
    }
}

/// Keys, of which some may be of things that are gone: these leave when half of them are.
#[derive(Debug, Default)]
pub(super) struct Members {
    keys: Vec<Key>,
    gone: usize,
}

impl Members {
    pub(super) fn join(&mut self, key: Key) {
        self.keys.push(key);
    }

    /// The thing of one of the keys is gone from `table`.
    pub(super) fn left<T>(&mut self, table: &Table<T>) {
        self.gone += 1;
        if self.gone * 2 > self.keys.len() {
            self.keys.retain(|key| table.get(*key).is_some());
            self.gone = 0;
        }
    }

    pub(super) fn leave(&mut self, key: Key) {
        self.keys.retain(|other| *other != key);
    }

    pub(super) fn keys(&self) -> &[Key] {
        &self.keys
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.len() == self.gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_never_used_twice() {
        let mut table = Table::new(1);
        let (a, b) = (table.add("a"), table.add("b"));
        assert_eq!(table.remove(a), Some("a"));
        assert_eq!(table.remove(a), None);
        let c = table.add("c");
        assert_eq!(c.index, a.index);
        assert_ne!(c, a);
        assert_eq!((table.get(a), table.get(b), table.get(c)), (None, Some(&"b"), Some(&"c")));
        assert_eq!(table.len(), 2);
        assert_eq!(table.keys().collect::<Vec<_>>(), [c, b]);
    }

    #[test]
    fn keys_are_of_one_table() {
        let (mut one, mut two) = (Table::new(1), Table::new(2));
        let (a, b) = (one.add("a"), two.add("b"));
        assert_eq!((one.get(b), two.get(a)), (None, None));
        assert_eq!(two.remove(a), None);
        assert_eq!((a.is_of(1), a.is_of(2), b.is_of(1), b.is_of(2)), (true, false, false, true));
        assert!(Table::new(TABLES - 1).add(()).is_of(TABLES - 1));
        // However often a slot is used. One that is used up stays empty, and another one is taken.
        for _ in 0..=1 << USES {
            let key = one.add("c");
            assert!(key.is_of(1) && key.generation < 1 << GENERATION_BITS);
            one.remove(key);
        }
        assert_eq!(one.slots.len(), 3);
    }

    #[test]
    fn those_who_left_are_forgotten_in_time() {
        let (mut table, mut members) = (Table::new(1), Members::default());
        let keys: Vec<_> = (0..10).map(|n| table.add(n)).collect();
        keys.iter().for_each(|key| members.join(*key));
        for key in &keys[..9] {
            table.remove(*key);
            members.left(&table);
            assert!(members.keys().len() <= 2 * table.len());
        }
        table.remove(keys[9]);
        members.left(&table);
        assert!(members.is_empty() && members.keys().is_empty());
    }
}
