//! Atomics that report each access to the CPU that makes it.
//!
//! Same names, same orderings, same layout as `core::sync::atomic`; the extra parameter is the CPU that
//! accesses. The methods carry `#[track_caller]` so that an observer can name the line of source; without an
//! observer the location is never materialised.

use crate::machine::{AccessKind, Cpu};
use core::fmt;
use core::marker::PhantomData;
pub use core::sync::atomic::Ordering;

#[cfg(loom)]
use super::shadow as raw;
#[cfg(not(loom))]
use core::sync::atomic as raw;

/// A fence, reported to the observer.
#[inline(always)]
#[track_caller]
pub fn fence<C: Cpu>(order: Ordering) {
    if C::OBSERVED {
        C::access(0, 0, AccessKind::Fence);
    }
    raw::fence(order);
}

/// Keeps the compiler, but not the CPU, from moving accesses. Orders nothing for other CPUs.
#[inline(always)]
pub fn compiler_fence<C: Cpu>() {
    #[cfg(not(loom))]
    raw::compiler_fence(Ordering::SeqCst);
}

/// Keeps the compiler, but not the CPU, from moving accesses: the reader's half of an asymmetric barrier
/// whose other half is [`Machine::barrier_all`](crate::machine::Machine::barrier_all).
#[inline(always)]
pub fn light_fence<C: Cpu>() {
    #[cfg(not(loom))]
    raw::compiler_fence(Ordering::SeqCst);
    // loom has no asymmetric barrier: both halves are full fences there.
    #[cfg(loom)]
    if !BARE.with(core::cell::Cell::get) {
        raw::fence(Ordering::SeqCst);
    }
}

#[cfg(loom)]
loom::thread_local! {
    /// Whether light fences of this thread order nothing.
    static BARE: core::cell::Cell<bool> = core::cell::Cell::new(false);
}

/// Calls `f` with light fences that order nothing, as on hardware. The model executes the fence that the
/// other half of the barrier has this CPU execute.
#[cfg(all(loom, test))]
pub fn with_bare_light_fences<R>(f: impl FnOnce() -> R) -> R {
    BARE.with(|bare| bare.set(true));
    let result = f();
    BARE.with(|bare| bare.set(false));
    result
}

macro_rules! atomic {
    ($(#[$doc:meta])* $name:ident, $value:ty) => {
        $(#[$doc])*
        #[repr(transparent)]
        pub struct $name<C: Cpu>(raw::$name, PhantomData<fn() -> C>);

        impl<C: Cpu> $name<C> {
            /// An atomic holding `value`.
            pub const fn new(value: $value) -> Self {
                Self(raw::$name::new(value), PhantomData)
            }

            #[inline(always)]
            #[track_caller]
            fn seen(&self, kind: AccessKind) {
                if C::OBSERVED {
                    C::access(&raw const *self as usize, size_of::<$value>(), kind);
                }
            }

            /// As `core`'s `load`.
            #[inline(always)]
            #[track_caller]
            pub fn load(&self, order: Ordering) -> $value {
                self.seen(AccessKind::Load);
                self.0.load(order)
            }

            /// As `core`'s `store`.
            #[inline(always)]
            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                self.seen(AccessKind::Store);
                self.0.store(value, order)
            }

            /// As `core`'s `swap`.
            #[inline(always)]
            #[track_caller]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                self.seen(AccessKind::Update);
                self.0.swap(value, order)
            }

            /// As `core`'s `compare_exchange`.
            ///
            /// # Errors
            /// The value found, if it is not `old`.
            #[inline(always)]
            #[track_caller]
            pub fn compare_exchange(
                &self,
                old: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.seen(AccessKind::Update);
                self.0.compare_exchange(old, new, success, failure)
            }

            /// Applies a pure transition until it takes effect or refuses; the one retry loop.
            ///
            /// # Errors
            /// The value for which `next` returned `None`.
            #[inline]
            #[track_caller]
            pub fn update(
                &self,
                success: Ordering,
                failure: Ordering,
                mut next: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut old = self.load(failure);
                while let Some(new) = next(old) {
                    match self.compare_exchange(old, new, success, failure) {
                        Ok(old) => return Ok(old),
                        Err(found) => old = found,
                    }
                }
                Err(old)
            }

            /// The value: `&mut` says that no other reference to the atomic exists.
            pub fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }
        }

        impl<C: Cpu> fmt::Debug for $name<C> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0.load(Ordering::Relaxed), f)
            }
        }
    };
}

macro_rules! arithmetic {
    ($name:ident, $value:ty) => {
        impl<C: Cpu> $name<C> {
            /// As `core`'s `fetch_add`.
            #[inline(always)]
            #[track_caller]
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.seen(AccessKind::Update);
                self.0.fetch_add(value, order)
            }

            /// As `core`'s `fetch_sub`.
            #[inline(always)]
            #[track_caller]
            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                self.seen(AccessKind::Update);
                self.0.fetch_sub(value, order)
            }

            /// As `core`'s `fetch_or`.
            #[inline(always)]
            #[track_caller]
            pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                self.seen(AccessKind::Update);
                self.0.fetch_or(value, order)
            }

            /// As `core`'s `fetch_and`.
            #[inline(always)]
            #[track_caller]
            pub fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                self.seen(AccessKind::Update);
                self.0.fetch_and(value, order)
            }

            /// Adds to a word that only one CPU writes: a load and a store, no read-modify-write.
            #[inline(always)]
            #[track_caller]
            pub fn add_own(&self, value: $value) {
                self.store(self.load(Ordering::Relaxed).wrapping_add(value), Ordering::Relaxed);
            }
        }
    };
}

atomic! {
    /// 32 bits.
    AtomicU32, u32
}
arithmetic!(AtomicU32, u32);
atomic! {
    /// 64 bits.
    AtomicU64, u64
}
arithmetic!(AtomicU64, u64);
atomic! {
    /// A word the size of a pointer.
    AtomicUsize, usize
}
arithmetic!(AtomicUsize, usize);

impl<C: Cpu> AtomicU64<C> {
    /// The atomic that lives in `cell`.
    ///
    /// # Safety
    /// Until the last use of the result, every access to the cell goes through such an atomic.
    #[inline(always)]
    pub unsafe fn from_cell(cell: &core::cell::UnsafeCell<u64>) -> &Self {
        // SAFETY: the atomic is a transparent wrapper of 8 bytes aligned to 8, like the cell; the caller
        // promises that the cell is not accessed otherwise.
        unsafe { &*(&raw const *cell).cast::<Self>() }
    }
}

impl<C: Cpu> AtomicU32<C> {
    /// Blocks the thread while the word is `expected`; see [`Cpu::sleep`].
    pub fn sleep_while(&self, expected: u32) {
        debug_assert!(
            C::with_context(|context| !context.in_read_section()),
            "sleeping in an RCU read section"
        );
        C::sleep(self.bare(), expected);
    }

    /// Wakes up to `count` threads that sleep on this word.
    pub fn wake(&self, count: u32) {
        C::wake(self.bare(), count);
    }

    #[cfg(not(loom))]
    fn bare(&self) -> &core::sync::atomic::AtomicU32 {
        &self.0
    }

    #[cfg(loom)]
    fn bare(&self) -> &core::sync::atomic::AtomicU32 {
        self.0.bare()
    }
}

/// An atomic pointer.
#[repr(transparent)]
pub struct AtomicPtr<T, C: Cpu>(AtomicUsize<C>, PhantomData<*mut T>);

// SAFETY: it is one atomic word. Loading gives a raw pointer, and to follow that is unsafe: as with `core`'s
// atomic pointer, the code that follows it says why the target may be used on that thread.
unsafe impl<T, C: Cpu> Send for AtomicPtr<T, C> {}
// SAFETY: as above.
unsafe impl<T, C: Cpu> Sync for AtomicPtr<T, C> {}

impl<T, C: Cpu> AtomicPtr<T, C> {
    /// A null pointer.
    pub const fn null() -> Self {
        Self(AtomicUsize::new(0), PhantomData)
    }

    /// As `core`'s `load`.
    #[inline(always)]
    #[track_caller]
    pub fn load(&self, order: Ordering) -> *mut T {
        core::ptr::with_exposed_provenance_mut(self.0.load(order))
    }

    /// As `core`'s `store`.
    #[inline(always)]
    #[track_caller]
    pub fn store(&self, value: *mut T, order: Ordering) {
        self.0.store(value.expose_provenance(), order)
    }

    /// As `core`'s `swap`.
    #[inline(always)]
    #[track_caller]
    pub fn swap(&self, value: *mut T, order: Ordering) -> *mut T {
        core::ptr::with_exposed_provenance_mut(self.0.swap(value.expose_provenance(), order))
    }

    /// As `core`'s `compare_exchange`.
    ///
    /// # Errors
    /// The pointer found, if it is not `old`.
    #[inline(always)]
    #[track_caller]
    pub fn compare_exchange(
        &self,
        old: *mut T,
        new: *mut T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<*mut T, *mut T> {
        self.0
            .compare_exchange(old.expose_provenance(), new.expose_provenance(), success, failure)
            .map(core::ptr::with_exposed_provenance_mut)
            .map_err(core::ptr::with_exposed_provenance_mut)
    }
}

impl<T, C: Cpu> fmt::Debug for AtomicPtr<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
