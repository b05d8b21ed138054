//! Handles: what C holds of an object of ours.
//!
//! A handle has the type of a pointer, so that a compiler tells a stream from a tail, but it points nowhere: it is the
//! object's place in a table and the generation of that place. So a handle that was freed, or that never was one, is told
//! from one that lives, and no call follows a pointer that it should not.
//!
//! A fork waits until no thread is inside a table ([`freeze`](Table::freeze)), so a child never finds one locked, nor an object
//! that is changed inside its table ([`change`](Table::change)). Objects with a life of their own, which goes on in the parent's
//! threads, are in tables [of a process](Table::of_process): a child is told so before it touches them.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tidings_bridge::{self as bridge, Error};

use crate::entry::Result;

#[cfg(not(target_pointer_width = "64"))]
compile_error!("handles need pointers of 64 bits");

const INDEX_BITS: u32 = 32;
const KIND_BITS: u32 = 6;

/// The live objects of one kind.
pub(crate) struct Table<T> {
    /// Tells handles of different kinds apart; 1 to 63.
    kind: usize,
    /// What a child inherits is of no use to it.
    ends_with_process: bool,
    slots: RwLock<Slots<T>>,
}

struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<usize>,
}

struct Slot<T> {
    /// Odd while an object is there.
    generation: u32,
    /// How many forks there had been when it was made.
    forks: u32,
    object: Option<Arc<T>>,
}

impl<T> Table<T> {
    pub(crate) const fn new(kind: usize) -> Self {
        Self::with(kind, false)
    }

    /// A table of what is its process's own: in a forked child it is `forked`, and can only be freed.
    pub(crate) const fn of_process(kind: usize) -> Self {
        Self::with(kind, true)
    }

    const fn with(kind: usize, ends_with_process: bool) -> Self {
        assert!(kind > 0 && kind < 1 << KIND_BITS, "a kind is a number from 1 to 63");
        Self { kind, ends_with_process, slots: RwLock::new(Slots { slots: Vec::new(), free: Vec::new() }) }
    }

    /// Keeps an object until its handle is freed.
    pub(crate) fn insert<H>(&self, object: T) -> *mut H {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        let index = slots.free.pop().unwrap_or_else(|| {
            slots.slots.push(Slot { generation: 0, forks: 0, object: None });
            slots.slots.len() - 1
        });
        let slot = &mut slots.slots[index];
        slot.generation = (slot.generation + 1) & GENERATION_MASK;
        slot.forks = bridge::generation();
        slot.object = Some(Arc::new(object));
        let address = ((slot.generation as usize) << (INDEX_BITS + KIND_BITS)) | (self.kind << INDEX_BITS) | index;
        std::ptr::without_provenance_mut(address)
    }

    /// The object of a handle.
    pub(crate) fn get<H>(&self, name: &str, handle: *const H) -> Result<Arc<T>> {
        let (index, generation) = self.place(name, handle)?;
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        self.object(name, &slots, index, generation).cloned()
    }

    fn object<'a>(&self, name: &str, slots: &'a Slots<T>, index: usize, generation: u32) -> Result<&'a Arc<T>> {
        match slots.slots.get(index) {
            Some(Slot { generation: now, forks, object: Some(object) }) if *now == generation => {
                if self.ends_with_process && *forks != bridge::generation() {
                    return Err(Error::forked());
                }
                Ok(object)
            }
            _ => Err(dead(name)),
        }
    }

    /// Forgets a handle; NULL is none to forget.
    pub(crate) fn free<H>(&self, name: &str, handle: *const H) -> Result<()> {
        // Without the lock: what goes with it may be another handle's object, or take its time.
        self.remove(name, handle).map(drop)
    }

    /// Forgets a handle and answers its object; none for NULL.
    pub(crate) fn remove<H>(&self, name: &str, handle: *const H) -> Result<Option<Arc<T>>> {
        if handle.is_null() {
            return Ok(None);
        }
        let (index, generation) = self.place(name, handle)?;
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        let object = match slots.slots.get_mut(index) {
            Some(slot) if slot.generation == generation && slot.object.is_some() => {
                slot.generation = (slot.generation + 1) & GENERATION_MASK;
                slot.object.take()
            }
            _ => return Err(dead(name)),
        };
        slots.free.push(index);
        Ok(object)
    }

    /// Keeps everybody out until what it answers is dropped, in this thread.
    pub(crate) fn freeze(&'static self) -> Box<dyn Any>
    where
        T: 'static,
    {
        Box::new(self.slots.write().unwrap_or_else(PoisonError::into_inner))
    }

    #[cfg(test)]
    pub(crate) fn kind(&self) -> usize {
        self.kind
    }

    #[cfg(test)]
    pub(crate) fn is_free(&self) -> bool {
        self.slots.try_read().is_ok()
    }

    fn place<H>(&self, name: &str, handle: *const H) -> Result<(usize, u32)> {
        let address = handle.addr();
        if address == 0 {
            return Err(Error::argument(name, "must not be NULL"));
        }
        let index = address & ((1 << INDEX_BITS) - 1);
        let kind = (address >> INDEX_BITS) & ((1 << KIND_BITS) - 1);
        let generation = u32::try_from(address >> (INDEX_BITS + KIND_BITS)).map_err(|_| dead(name))?;
        if kind == self.kind { Ok((index, generation)) } else { Err(dead(name)) }
    }
}

impl<T> Table<Mutex<T>> {
    /// Changes an object, or looks at it, inside the table: a fork waits for it. `work` asks for no table.
    pub(crate) fn change<H, R>(
        &self,
        name: &str,
        handle: *const H,
        work: impl FnOnce(&mut T) -> Result<R>,
    ) -> Result<R> {
        let (index, generation) = self.place(name, handle)?;
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        let object = self.object(name, &slots, index, generation)?;
        work(&mut object.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// As many generations as a handle has room for.
const GENERATION_MASK: u32 = (1 << (usize::BITS - INDEX_BITS - KIND_BITS)) - 1;

fn dead(name: &str) -> Error {
    Error::argument(name, "is no live handle of its type: it was freed before, or never was one")
}

#[cfg(test)]
mod tests {
    use super::*;

    enum Handle {}

    #[test]
    fn a_handle_lives_until_it_is_freed() {
        let table = Table::new(3);
        let handle: *mut Handle = table.insert("first");
        assert_eq!(*table.get("x", handle).unwrap(), "first");
        table.free("x", handle).unwrap();
        assert!(table.get("x", handle).unwrap_err().to_string().starts_with("x: is no live handle"));
        assert!(table.free("x", handle).is_err(), "twice");
        let next: *mut Handle = table.insert("second");
        assert_ne!(next, handle, "a place is used again under another generation");
        assert!(table.get("x", handle).is_err());
        assert_eq!(*table.get("x", next).unwrap(), "second");
    }

    #[test]
    fn handles_of_another_kind_and_no_handles() {
        let (hubs, tails) = (Table::new(1), Table::new(2));
        let hub: *mut Handle = hubs.insert(());
        let _tail: *mut Handle = tails.insert(());
        assert!(tails.get("tail", hub).is_err());
        assert!(tails.free("tail", hub).is_err());
        for address in [1, 8, usize::MAX, 1 << 40, usize::MAX / 2] {
            assert!(hubs.get("hub", std::ptr::without_provenance::<Handle>(address)).is_err(), "{address:#x}");
        }
        assert!(hubs.get::<Handle>("hub", std::ptr::null()).unwrap_err().to_string().contains("must not be NULL"));
        assert!(hubs.remove::<Handle>("hub", std::ptr::null()).unwrap().is_none());
        hubs.free::<Handle>("hub", std::ptr::null()).unwrap();
    }

    #[test]
    fn an_object_in_use_outlives_its_handle() {
        let table = Table::new(1);
        let handle: *mut Handle = table.insert(String::from("kept"));
        let object = table.get("x", handle).unwrap();
        table.free("x", handle).unwrap();
        assert_eq!(*object, "kept");
    }

    #[test]
    fn what_is_changed_inside_its_table_is_not_locked_in_a_fork() {
        static TABLE: Table<Mutex<Vec<u32>>> = Table::new(5);
        let handle: *mut Handle = TABLE.insert(Mutex::default());
        let address = handle.addr();
        let (inside, leave) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let handle = std::ptr::without_provenance::<Handle>(address);
                let change = |list: &mut Vec<u32>| {
                    inside.wait();
                    leave.wait();
                    list.push(1);
                    Ok(())
                };
                TABLE.change("x", handle, change).unwrap();
            });
            inside.wait();
            assert!(TABLE.slots.try_write().is_err(), "a fork would wait");
            leave.wait();
            drop(TABLE.freeze());
            assert_eq!(*TABLE.get("x", handle).unwrap().try_lock().unwrap(), [1], "nobody is inside, and holds it");
        });
        let refused = TABLE.change("x", handle, |_| -> Result<()> { Err(Error::argument("y", "is wrong")) });
        assert_eq!(refused.unwrap_err().to_string(), "y: is wrong");
        TABLE.free("x", handle).unwrap();
        assert!(TABLE.change("x", handle, |_| Ok(())).is_err());
        assert!(TABLE.change::<Handle, _>("x", std::ptr::null(), |_| Ok(())).is_err());
    }
}
