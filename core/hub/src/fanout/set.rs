//! Things with keys that are never used twice, and sets of such keys that cost nothing to leave.

/// Names one thing of a [`Table`], for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) index: u32,
    pub(super) generation: u32,
}

/// Things by key.
#[derive(Debug)]
pub(super) struct Table<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Table<T> {
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
        // 2^32 connections at a time do not occur.
        let index = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        self.slots.push(Slot { generation: 0, value: Some(value) });
        Key { index, generation: 0 }
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
        if let Some(next) = slot.generation.checked_add(1) {
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
        let mut table = Table::default();
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
    fn those_who_left_are_forgotten_in_time() {
        let (mut table, mut members) = (Table::default(), Members::default());
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
