//! Functions of the caller's, each with user data of its own and a finalizer.
//!
//! Who lets go of one waits for its calls under way in other threads, and then the finalizer is called, once. Where one is let
//! go of from inside itself, the thread that is in the last call does that when it has returned.
//!
//! They are called in the middle of things, under whatever lock there is: so nothing but that may be called from inside
//! (`is_inside_any`), and all else is refused before it can wait for itself.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Told when user data is needed no longer: once, after the last call that gets it has returned.
#[allow(non_camel_case_types, reason = "C's names")]
pub type tidings_drop = Option<unsafe extern "C" fn(user_data: *mut c_void)>;

/// A function and its user data, until it is closed.
pub(crate) struct Callback<F> {
    number: u64,
    function: F,
    data: UserData,
}

#[derive(Clone, Copy)]
struct UserData {
    data: *mut c_void,
    finalize: tidings_drop,
}

// SAFETY: the header asks that callbacks may be called from any thread, and the data is theirs.
unsafe impl Send for UserData {}
// SAFETY: as above; nothing here is written.
unsafe impl Sync for UserData {}

impl UserData {
    fn finalize(self) {
        if let Some(finalize) = self.finalize {
            // It may be called where the last call was.
            let _inside = Inside::new(FINALIZER);
            // SAFETY: the caller's function with the caller's data, to which no call comes any more.
            unsafe { finalize(self.data) }
        }
    }
}

pub(crate) struct Open {
    last: u64,
    /// By their numbers; one that was finalized is not here.
    callbacks: BTreeMap<u64, Calls>,
    /// What was freed from inside a callback.
    gone: Vec<Box<dyn Any + Send>>,
}

#[derive(Default)]
struct Calls {
    under_way: usize,
    closed: bool,
    /// Somebody waits for the last call, and finalizes.
    waited_for: bool,
}

/// One lock for all: they are called seldom, and a fork has to hold it.
static OPEN: Mutex<Open> = Mutex::new(Open { last: 0, callbacks: BTreeMap::new(), gone: Vec::new() });
/// Whether there is some of it.
static SOME_GONE: AtomicBool = AtomicBool::new(false);
static RETURNED: Condvar = Condvar::new();

thread_local! {
    /// The callbacks that this thread is inside of, by their numbers.
    static INSIDE: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// The number that stands for any finalizer.
const FINALIZER: u64 = 0;

/// This thread is inside of a callback, until it is dropped.
struct Inside;

impl Inside {
    fn new(number: u64) -> Self {
        let _ = INSIDE.try_with(|inside| inside.borrow_mut().push(number));
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = INSIDE.try_with(|inside| inside.borrow_mut().pop());
    }
}

/// Whether this thread is inside of a callback or a finalizer.
pub(crate) fn is_inside_any() -> bool {
    INSIDE.try_with(|inside| !inside.borrow().is_empty()).unwrap_or(false)
}

fn open() -> MutexGuard<'static, Open> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many calls of a callback this thread is inside of.
fn inside(number: u64) -> usize {
    // At the end of a thread there may be nothing left to look at, and then nothing calls.
    INSIDE.try_with(|inside| inside.borrow().iter().filter(|one| **one == number).count()).unwrap_or(0)
}

impl<F: Copy> Callback<F> {
    pub(crate) fn new(function: F, data: *mut c_void, finalize: tidings_drop) -> Self {
        let mut open = open();
        open.last += 1;
        let number = open.last;
        open.callbacks.insert(number, Calls::default());
        Self { number, function, data: UserData { data, finalize } }
    }

    /// Has `call` call the function with its data, unless it was closed.
    pub(crate) fn call(&self, call: impl FnOnce(F, *mut c_void)) {
        match open().callbacks.get_mut(&self.number) {
            Some(calls) if !calls.closed => calls.under_way += 1,
            _ => return,
        }
        // Whatever comes of it, the call is counted off.
        let _under_way = UnderWay { number: self.number, data: self.data };
        let _inside = Inside::new(self.number);
        call(self.function, self.data.data);
    }
}

impl<F> Callback<F> {
    /// Whether this thread is inside of it.
    pub(crate) fn is_inside(&self) -> bool {
        inside(self.number) > 0
    }

    /// No call begins any more. Waits for those under way, unless this thread is inside of one.
    pub(crate) fn close(&self) {
        let mine = inside(self.number);
        let mut open = open();
        match open.callbacks.get_mut(&self.number) {
            Some(calls) if !calls.closed => {
                calls.closed = true;
                calls.waited_for = mine == 0;
            }
            _ => return,
        }
        if mine > 0 {
            return;
        }
        while open.callbacks.get(&self.number).is_some_and(|calls| calls.under_way > 0) {
            open = RETURNED.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
        open.callbacks.remove(&self.number);
        drop(open);
        self.data.finalize();
    }

    /// What was to hold it could not be made: the data is the caller's as before, and is not finalized.
    pub(crate) fn give_back(&self) {
        open().callbacks.remove(&self.number);
    }
}

impl<F> Drop for Callback<F> {
    fn drop(&mut self) {
        self.close();
    }
}

/// A call under way, until it is dropped.
struct UnderWay {
    number: u64,
    data: UserData,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut open = open();
        let Some(calls) = open.callbacks.get_mut(&self.number) else { return };
        calls.under_way = calls.under_way.saturating_sub(1);
        if !calls.closed || calls.under_way > 0 {
            return;
        }
        if calls.waited_for {
            drop(open);
            RETURNED.notify_all();
        } else {
            open.callbacks.remove(&self.number);
            drop(open);
            self.data.finalize();
        }
    }
}

/// Keeps everybody out, over a fork.
pub(crate) fn hold() -> MutexGuard<'static, Open> {
    open()
}

/// Lets go of something from inside a callback, whose thread may hold what that needs: when the next export is called.
pub(crate) fn let_go_later(gone: impl Any + Send) {
    open().gone.push(Box::new(gone));
    SOME_GONE.store(true, Ordering::Release);
}

/// Outside of callbacks: lets go of what had to wait for that. Costs next to nothing where nothing has.
#[inline]
pub(crate) fn let_go() {
    if SOME_GONE.load(Ordering::Relaxed) && SOME_GONE.swap(false, Ordering::Acquire) {
        // Without the lock: what goes may have callbacks itself.
        let gone = std::mem::take(&mut open().gone);
        drop(gone);
    }
}

#[cfg(test)]
pub(crate) fn is_free() -> bool {
    OPEN.try_lock().is_ok()
}

/// In a forked child: the calls of the parent's other threads are not under way here.
pub(crate) fn forget_other_threads() {
    for (number, calls) in &mut open().callbacks {
        calls.under_way = inside(*number);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::{Arc, Barrier};

    use super::*;

    type Nothing = unsafe extern "C" fn(*mut c_void);

    unsafe extern "C" fn nothing(_: *mut c_void) {}

    /// Counts into the user data.
    unsafe extern "C" fn count(data: *mut c_void) {
        // SAFETY: the tests below hand over a counter that lives.
        unsafe { &*data.cast::<AtomicUsize>() }.fetch_add(1, Ordering::SeqCst);
    }

    fn counting(finalized: &AtomicUsize) -> Callback<Nothing> {
        Callback::new(nothing as Nothing, std::ptr::from_ref(finalized).cast_mut().cast(), Some(count))
    }

    #[test]
    fn closed_once_and_never_called_again() {
        let finalized = AtomicUsize::new(0);
        let callback = counting(&finalized);
        let mut calls = 0;
        callback.call(|_, _| calls += 1);
        callback.close();
        callback.call(|_, _| calls += 1);
        callback.close();
        drop(callback);
        assert_eq!((calls, finalized.load(Ordering::SeqCst)), (1, 1));
    }

    #[test]
    fn who_closes_it_waits_for_a_call_in_another_thread() {
        let finalized = AtomicUsize::new(0);
        let (callback, entered, leave) = (counting(&finalized), Barrier::new(2), Barrier::new(2));
        let returned = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                callback.call(|_, _| {
                    entered.wait();
                    leave.wait();
                    returned.store(1, Ordering::SeqCst);
                });
            });
            entered.wait();
            let closer = scope.spawn(|| {
                callback.close();
                (returned.load(Ordering::SeqCst), finalized.load(Ordering::SeqCst))
            });
            // It cannot be done before the call is: this sees it wait, or come later.
            while !open().callbacks[&callback.number].closed {
                std::thread::yield_now();
            }
            assert_eq!(finalized.load(Ordering::SeqCst), 0);
            callback.call(|_, _| panic!("no call begins any more"));
            leave.wait();
            assert_eq!(closer.join().unwrap(), (1, 1));
        });
    }

    #[test]
    fn closed_from_inside_it_is_finalized_after_the_last_call() {
        let finalized = AtomicUsize::new(0);
        let callback = counting(&finalized);
        let (other_in, close_now, leave) = (Barrier::new(2), Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                callback.call(|_, _| {
                    other_in.wait();
                    close_now.wait();
                    leave.wait();
                    assert_eq!(finalized.load(Ordering::SeqCst), 0, "this call is under way");
                });
            });
            other_in.wait();
            callback.call(|_, _| {
                callback.close();
                callback.call(|_, _| panic!("no call begins any more"));
                assert_eq!(finalized.load(Ordering::SeqCst), 0);
            });
            close_now.wait();
            leave.wait();
            other.join().unwrap();
        });
        assert_eq!(finalized.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn the_last_that_holds_it_finalizes() {
        let finalized = AtomicUsize::new(0);
        let callback = Arc::new(counting(&finalized));
        let inner = Arc::clone(&callback);
        callback.call(move |_, _| drop(inner));
        drop(callback);
        assert_eq!(finalized.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn what_is_given_back_is_not_finalized() {
        let finalized = AtomicUsize::new(0);
        let callback = counting(&finalized);
        callback.give_back();
        callback.call(|_, _| panic!("nobody holds it"));
        drop(callback);
        assert_eq!(finalized.load(Ordering::SeqCst), 0);
    }
}
