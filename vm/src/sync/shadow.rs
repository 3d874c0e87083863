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

use core::cell::UnsafeCell;
use core::ops::Range;
use core::sync::atomic::Ordering;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::vec::Vec;

/// Number of zeros made in advance. Each costs time in every fence.
const NR_ZEROS: usize = 24;

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
    ($name:ident, $value:ty, $map:ident, $forget:ident, $refill_zeros:ident) => {
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

            pub fn load(&self, order: Ordering) -> $value {
                self.shadow().load(order)
            }

            pub fn store(&self, value: $value, order: Ordering) {
                self.shadow().store(value, order);
                self.keep(value);
            }

            pub fn swap(&self, value: $value, order: Ordering) -> $value {
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
                let found = self.shadow().compare_exchange(old, new, success, failure);
                if found.is_ok() {
                    self.keep(new);
                }
                found
            }

            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                let old = self.shadow().fetch_add(value, order);
                self.keep(old.wrapping_add(value));
                old
            }

            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                let old = self.shadow().fetch_sub(value, order);
                self.keep(old.wrapping_sub(value));
                old
            }

            pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                let old = self.shadow().fetch_or(value, order);
                self.keep(old | value);
                old
            }

            pub fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                let old = self.shadow().fetch_and(value, order);
                self.keep(old & value);
                old
            }

            pub fn get_mut(&mut self) -> &mut $value {
                let at = self.0.get() as usize;
                $map.lock().unwrap().at.remove(&at);
                self.0.get_mut()
            }
        }
    };
}

shadow!(AtomicU32, u32, WORDS32, forget_u32, refill_u32);
shadow!(AtomicU64, u64, WORDS64, forget_u64, refill_u64);
shadow!(AtomicUsize, usize, WORDS_SIZE, forget_usize, refill_usize);

impl AtomicU32 {
    /// The bare word, for sleeping; a loom CPU ignores it and yields.
    pub fn bare(&self) -> &core::sync::atomic::AtomicU32 {
        // SAFETY: the cell has the size and alignment of the atomic, and loom runs one thread at a time.
        unsafe { &*self.0.get().cast::<core::sync::atomic::AtomicU32>() }
    }
}
