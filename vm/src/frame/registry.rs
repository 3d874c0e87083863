//! Values in pool memory that are reached by a number.
//!
//! ```text
//!   number ─ hash ─► bucket ─► entry ─► entry       a lookup follows the list in a read section, no lock
//!                    lock      number   number      insertion and removal take the bucket's lock
//!                              value    value
//! ```
//!
//! A number is used once, so it names its value or nothing, however long it was kept. The registry owns its
//! values; a removed one stays in memory for the readers that found it, and is freed after a grace period.

use super::{Memory, SlabPool};
use crate::machine::{Cpu, Machine};
use crate::sync::atomic::{AtomicPtr, Ordering::*};
use crate::sync::{Rcu, RcuHead, ReadGuard, SpinLock, UniqueId, carve_slice, fill, lockdep};
use core::fmt;
use core::marker::PhantomData;
use core::mem::needs_drop;
use core::num::NonZeroU64;
use core::ptr::NonNull;

/// Values of one kind, by number. Made at start, in memory that is never freed.
pub(crate) struct Registry<'m, T, M: Machine> {
    pool: SlabPool<'m, RegistryEntry<T, M::Cpu>, M>,
    /// A power of two of them.
    buckets: &'m [Bucket<T, M::Cpu>],
    /// The RCU of the readers.
    rcu: UniqueId,
    /// Values are put in through `&self`: the lifetimes in `T` can be neither shortened nor extended.
    _values: PhantomData<fn(T) -> T>,
}

/// The entries whose numbers have one hash.
struct Bucket<T, C: Cpu> {
    /// The right to change the list.
    lock: SpinLock<(), C, { lockdep::REGISTRY.0 }>,
    first: Link<T, C>,
}

/// The next entry of a list, or null. Stored with release, loaded with acquire.
type Link<T, C> = AtomicPtr<RegistryEntry<T, C>, C>;

/// A value, in a list. All but the link never changes.
#[repr(C)]
struct RegistryEntry<T, C: Cpu> {
    head: RcuHead,
    next: Link<T, C>,
    number: NonZeroU64,
    value: T,
}

/// Frames of memory for each bucket, and the most buckets.
const FRAMES_PER_BUCKET: u64 = 256;
const MAX_BUCKETS: u64 = 1 << 16;

impl<'m, T: Send + Sync, M: Machine> Registry<'m, T, M> {
    /// Bytes that a value takes.
    pub(crate) const ENTRY_BYTES: usize = size_of::<RegistryEntry<T, M::Cpu>>();

    /// An empty registry, whose values will lie in frames of `memory`, for readers of `rcu`. `None` where
    /// memory does not suffice.
    pub(crate) fn new(memory: &Memory<'m, M>, rcu: &Rcu<M::Cpu>) -> Option<Self> {
        const { assert!(!needs_drop::<T>(), "values are freed, never dropped") };
        let wanted = memory.span().len() / FRAMES_PER_BUCKET;
        let len = wanted.clamp(1, MAX_BUCKETS).next_power_of_two() as usize;
        let slots = carve_slice(&mut memory.boot_allocator(), len)?;
        let buckets = fill(slots, |_| Bucket { lock: SpinLock::new(()), first: AtomicPtr::null() });
        Some(Self { pool: SlabPool::new(memory)?, buckets, rcu: rcu.id(), _values: PhantomData })
    }

    fn bucket(&self, number: NonZeroU64) -> &'m Bucket<T, M::Cpu> {
        // Fibonacci hashing: numbers that CPUs give lie at equal distances.
        let hash = number.get().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.buckets[hash as usize & (self.buckets.len() - 1)]
    }

    /// The value of that number, for the life of a read section.
    ///
    /// # Panics
    /// Where the section is one of another RCU.
    #[inline]
    #[track_caller]
    pub(crate) fn get<'r>(&'r self, number: NonZeroU64, reading: &'r ReadGuard<'_, M::Cpu>) -> Option<&'r T> {
        reading.assert_of(self.rcu);
        let mut link = &self.bucket(number).first;
        loop {
            // SAFETY: a link is null, or points to an entry that was filled before it was linked, and that is
            // freed a grace period of `rcu` after it was unlinked (`remove`). The link was loaded in a read
            // section of that RCU, as checked above, which lasts for `'r`.
            let entry = unsafe { link.load(Acquire).as_ref() }?;
            if entry.number == number {
                return Some(&entry.value);
            }
            link = &entry.next;
        }
    }

    /// Puts a value in under a number that no other one has or had. Returns where it lies until it is
    /// removed. `Err` with the value where there is no memory.
    ///
    /// # Panics
    /// Where the registry is of another memory.
    pub(crate) fn insert(
        &self,
        memory: &Memory<'m, M>,
        number: NonZeroU64,
        value: T,
    ) -> Result<NonNull<T>, T> {
        let Some(place) = self.pool.with(memory).alloc() else { return Err(value) };
        let bucket = self.bucket(number);
        let (head, next) = (RcuHead::new(), AtomicPtr::null());
        // SAFETY: the pool has just given the memory, which has no other owner and fits an entry.
        let entry = unsafe { &mut *place.as_ptr() }.write(RegistryEntry { head, next, number, value });
        let at = NonNull::from(&entry.value);
        let _held = bucket.lock.lock();
        entry.next.store(bucket.first.load(Relaxed), Relaxed);
        // Release: the entry, for readers that find it.
        bucket.first.store(entry, Release);
        Ok(at)
    }

    /// Takes the value of that number out; its memory is freed after a grace period. May wait for readers.
    /// `false` where there is none.
    ///
    /// # Panics
    /// Where the registry is of another memory, or read under another RCU.
    pub(crate) fn remove(&self, memory: &Memory<'m, M>, rcu: &Rcu<M::Cpu>, number: NonZeroU64) -> bool {
        self.remove_if(memory, rcu, number, |_| true)
    }

    /// As [`remove`](Self::remove), of the value that lies there, as [`insert`](Self::insert) has said.
    pub(super) fn remove_at(
        &self,
        memory: &Memory<'m, M>,
        rcu: &Rcu<M::Cpu>,
        number: NonZeroU64,
        at: NonNull<T>,
    ) -> bool {
        let is_it = |value| core::ptr::eq(value, at.as_ptr()) || mutant!("registry.namesake-removed");
        self.remove_if(memory, rcu, number, is_it)
    }

    fn remove_if(
        &self,
        memory: &Memory<'m, M>,
        rcu: &Rcu<M::Cpu>,
        number: NonZeroU64,
        is_it: impl Fn(*const T) -> bool,
    ) -> bool {
        assert!(rcu.id() == self.rcu, "a registry that is read under another RCU");
        let pool = self.pool.with(memory);
        let Some(entry) = self.unlink(number, is_it) else { return false };
        if mutant!("registry.freed-at-once") {
            // SAFETY: none, this is broken on purpose: a reader may use it.
            unsafe { pool.free(entry) };
            return true;
        }
        // SAFETY: (1) a section of the RCU that begins now does not find the entry, and it is freed here
        // only. (2) The head is the entry's first field and unused; the lock lets one thread unlink it. (3)
        // It is an object of this pool, and such lie in frames of the memory.
        unsafe { pool.retire(rcu, entry.cast()) };
        true
    }

    fn unlink(
        &self,
        number: NonZeroU64,
        is_it: impl Fn(*const T) -> bool,
    ) -> Option<NonNull<RegistryEntry<T, M::Cpu>>> {
        let bucket = self.bucket(number);
        let _held = bucket.lock.lock();
        let mut link = &bucket.first;
        loop {
            let at = NonNull::new(link.load(Relaxed))?;
            // SAFETY: an entry that is linked was filled before, and is not freed while it is; only the
            // holder of the lock unlinks one of this bucket.
            let entry = unsafe { at.as_ref() };
            if entry.number == number && is_it(&raw const entry.value) {
                link.store(entry.next.load(Relaxed), Release);
                return Some(at);
            }
            link = &entry.next;
        }
    }
}

impl<T, M: Machine> fmt::Debug for Registry<'_, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "registry of {} buckets, {:?}", self.buckets.len(), self.pool)
    }
}

#[cfg(all(test, not(loom)))]
#[path = "tests/registry.rs"]
mod tests;
