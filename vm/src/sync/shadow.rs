//! loom's atomics, found by address.
//!
//! loom's atomics are larger than the words they model, not const, and not valid when zero, while our words
//! lie in frames and records. So the door's atomic stays a bare word, and each operation looks up a shadow
//! atomic by the word's address. Every store is also written to the bare word (loom runs one thread at a
//! time), so that a word that moves, or memory that is used anew after [`forget`], starts from its real
//! content.
//!
//! loom wants an atomic's creation ordered before every access, and a shadow is created by the thread that
//! touches the word first. So a number of zeros is made in advance when the first shadow of a width is
//! needed: the test's main thread touches any word before it spawns, and a word that starts as zero may then
//! be touched first by any thread. A word that starts otherwise is touched before the threads are spawned, or
//! published with release like any fresh memory; else loom reports "Concurrent load and mut accesses".
//!
//! While a model has one thread (see `single_thread`) its accesses are of the bare words alone. What was
//! accessed is noted, and gets its shadows, with the values of then, before a thread is spawned.

use super::single_thread::{Noted, is_single};
use core::cell::{Cell, RefCell, UnsafeCell};
use core::ops::Range;
use core::sync::atomic::Ordering;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::vec::Vec;

/// Number of zeros made in advance. Each costs time in every fence.
const NR_ZEROS: usize = 32;

/// The shadows by address. Host synchronisation, so that looking up is no step of the model.
struct Shadows<T> {
    at: BTreeMap<usize, Arc<T>>,
    zeros: Vec<Arc<T>>,
}

impl<T> Shadows<T> {
    fn new(zero: impl Fn() -> T) -> Mutex<Self> {
        Mutex::new(Self { at: BTreeMap::new(), zeros: (0..NR_ZEROS).map(|_| Arc::new(zero())).collect() })
    }
}

/// Makes zeros in advance again: for models whose preparation touches many words. Called before threads are
/// spawned.
pub fn refill_zeros() {
    refill_u32();
    refill_u64();
    refill_usize();
}

/// Executes a fence, unless there is only one thread.
pub fn fence(order: Ordering) {
    if !is_single() {
        loom::sync::atomic::fence(order);
    }
}

std::thread_local! {
    /// Whether the accesses are no steps of the model. loom's threads all run in one of the host's.
    static PRIVATE: Cell<bool> = const { Cell::new(false) };
}

/// Calls `f`, whose stores are to words that no other thread can reach yet, as steps of no model: words that
/// a model does not look at, but that there are too many of. They have no shadows afterwards.
pub fn privately<R>(f: impl FnOnce() -> R) -> R {
    PRIVATE.set(true);
    let result = f();
    PRIVATE.set(false);
    result
}

/// Gives the words that a single thread has accessed their shadows.
pub(super) fn make_noted() {
    make_noted_u32();
    make_noted_u64();
    make_noted_usize();
}

/// Drops the notes of an execution that is over.
pub(super) fn drop_noted() {
    NOTED32.take();
    NOTED64.take();
    NOTED_SIZE.take();
}

/// Forgets the shadows of words in `range`: the memory is used for something else.
pub fn forget(range: Range<usize>) {
    forget_u32(&range);
    forget_u64(&range);
    forget_usize(&range);
}

/// Forgets the shadows of words where a value lies that was moved there.
pub fn forget_value<T>(value: &T) {
    let start = core::ptr::from_ref(value).addr();
    forget(start..start + size_of::<T>());
}

macro_rules! shadow {
    ($name:ident, $value:ty, $map:ident, $noted:ident, $forget:ident, $refill_zeros:ident, $make:ident) => {
        std::thread_local! {
            /// Words that a single thread has accessed, in order: loom's objects are the same each time.
            static $noted: RefCell<Noted<$value>> = RefCell::default();
        }

        fn $make() {
            let mut map = $map.lock().unwrap();
            for (address, value) in $noted.take().into_words() {
                map.at.insert(address, Arc::new(loom::sync::atomic::$name::new(value)));
            }
        }

        loom::lazy_static! {
            static ref $map: Mutex<Shadows<loom::sync::atomic::$name>> =
                Shadows::new(|| loom::sync::atomic::$name::new(0));
        }

        fn $refill_zeros() {
            let mut map = $map.lock().unwrap();
            while map.zeros.len() < NR_ZEROS {
                map.zeros.push(Arc::new(loom::sync::atomic::$name::new(0)));
            }
        }

        fn $forget(range: &Range<usize>) {
            $map.lock().unwrap().at.retain(|address, _| !range.contains(address));
            $noted.with_borrow_mut(|noted| noted.forget(range));
        }

        #[repr(transparent)]
        pub struct $name(UnsafeCell<$value>);

        // SAFETY: loom runs one thread at a time, and the cell is only accessed between its scheduling
        // points.
        unsafe impl Sync for $name {}
        // SAFETY: as above.
        unsafe impl Send for $name {}

        impl $name {
            pub const fn new(value: $value) -> Self {
                Self(UnsafeCell::new(value))
            }

            fn shadow(&self) -> Arc<loom::sync::atomic::$name> {
                let mut map = $map.lock().unwrap();
                let Shadows { at, zeros } = &mut *map;
                // SAFETY: one thread runs at a time; no reference into the cell exists.
                let now = unsafe { *self.0.get() };
                let fresh = || Arc::new(loom::sync::atomic::$name::new(now));
                let make = || if now == 0 { zeros.pop().unwrap_or_else(fresh) } else { fresh() };
                at.entry(self.0.get() as usize).or_insert_with(make).clone()
            }

            fn keep(&self, value: $value) {
                // SAFETY: one thread runs at a time; no reference into the cell exists.
                unsafe { *self.0.get() = value }
            }

            /// Accesses the bare word, where there is only one thread. Returns the old value.
            fn alone(&self, change: impl FnOnce($value) -> $value) -> Option<$value> {
                if PRIVATE.get() {
                    // SAFETY: one thread runs at a time; no reference into the cell exists.
                    let old = unsafe { *self.0.get() };
                    let new = change(old);
                    if new != old {
                        $map.lock().unwrap().at.remove(&(self.0.get() as usize));
                        self.keep(new);
                    }
                    return Some(old);
                }
                if !is_single() {
                    return None;
                }
                // SAFETY: there is one thread; no reference into the cell exists.
                let old = unsafe { *self.0.get() };
                let new = change(old);
                self.keep(new);
                $noted.with_borrow_mut(|noted| noted.note(self.0.get() as usize, new));
                Some(old)
            }

            pub fn load(&self, order: Ordering) -> $value {
                self.alone(|now| now).unwrap_or_else(|| self.shadow().load(order))
            }

            pub fn store(&self, value: $value, order: Ordering) {
                if self.alone(|_| value).is_some() {
                    return;
                }
                self.shadow().store(value, order);
                self.keep(value);
            }

            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                if let Some(old) = self.alone(|_| value) {
                    return old;
                }
                let old = self.shadow().swap(value, order);
                self.keep(value);
                old
            }

            pub fn compare_exchange(
                &self,
                old: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                if let Some(found) = self.alone(|now| if now == old { new } else { now }) {
                    return if found == old { Ok(found) } else { Err(found) };
                }
                let found = self.shadow().compare_exchange(old, new, success, failure);
                if found.is_ok() {
                    self.keep(new);
                }
                found
            }

            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                if let Some(old) = self.alone(|old| old.wrapping_add(value)) {
                    return old;
                }
                let old = self.shadow().fetch_add(value, order);
                self.keep(old.wrapping_add(value));
                old
            }

            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                if let Some(old) = self.alone(|old| old.wrapping_sub(value)) {
                    return old;
                }
                let old = self.shadow().fetch_sub(value, order);
                self.keep(old.wrapping_sub(value));
                old
            }

            pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                if let Some(old) = self.alone(|old| old | value) {
                    return old;
                }
                let old = self.shadow().fetch_or(value, order);
                self.keep(old | value);
                old
            }

            pub fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                if let Some(old) = self.alone(|old| old & value) {
                    return old;
                }
                let old = self.shadow().fetch_and(value, order);
                self.keep(old & value);
                old
            }

            pub fn get_mut(&mut self) -> &mut $value {
                let at = self.0.get() as usize;
                $map.lock().unwrap().at.remove(&at);
                $noted.with_borrow_mut(|noted| noted.forget(&(at..at + 1)));
                self.0.get_mut()
            }
        }
    };
}

shadow!(AtomicU32, u32, WORDS32, NOTED32, forget_u32, refill_u32, make_noted_u32);
shadow!(AtomicU64, u64, WORDS64, NOTED64, forget_u64, refill_u64, make_noted_u64);
shadow!(AtomicUsize, usize, WORDS_SIZE, NOTED_SIZE, forget_usize, refill_usize, make_noted_usize);

impl AtomicU32 {
    /// The bare word, for sleeping; a loom CPU ignores it and yields.
    pub fn bare(&self) -> &core::sync::atomic::AtomicU32 {
        // SAFETY: the cell has the size and alignment of the atomic, and loom runs one thread at a time.
        unsafe { &*self.0.get().cast::<core::sync::atomic::AtomicU32>() }
    }
}
