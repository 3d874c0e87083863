//! Values in slab memory that are reached by a number.
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
use crate::sync::{Rcu, RcuHead, ReadGuard, SpinGuard, SpinLock, UniqueId, carve_slice, fill, lockdep};
use core::fmt;
use core::marker::PhantomData;
use core::mem::{MaybeUninit, needs_drop};
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

    /// Whether no value is in. Stale at once.
    pub(crate) fn is_empty_racy(&self) -> bool {
        self.buckets.iter().all(|bucket| bucket.first.load(Relaxed).is_null())
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
        let held = bucket.lock.lock();
        Ok(Self::put(bucket, &held, place, (number, value)))
    }

    /// As [`insert`](Self::insert), where no value that is in has the number: `false` where one has, and
    /// where there is no memory.
    pub(crate) fn insert_new(&self, memory: &Memory<'m, M>, number: NonZeroU64, value: T) -> bool {
        let pool = self.pool.with(memory);
        let Some(place) = pool.alloc() else { return false };
        let bucket = self.bucket(number);
        let held = bucket.lock.lock();
        if Self::link_to(bucket, &held, number, |_| true).is_some() {
            drop(held);
            // SAFETY: the pool has just given it, and it was not used.
            unsafe { pool.free(place.cast()) };
            return false;
        }
        Self::put(bucket, &held, place, (number, value));
        true
    }

    /// Links memory that the pool has given as the first entry of a bucket, whose lock is held.
    fn put(
        bucket: &Bucket<T, M::Cpu>,
        _held: &SpinGuard<'_, (), M::Cpu>,
        place: NonNull<MaybeUninit<RegistryEntry<T, M::Cpu>>>,
        (number, value): (NonZeroU64, T),
    ) -> NonNull<T> {
        let (head, next) = (RcuHead::new(), AtomicPtr::null());
        // SAFETY: the slab pool has given the memory to the caller, it has no other owner and fits an entry.
        let entry = unsafe { &mut *place.as_ptr() }.write(RegistryEntry { head, next, number, value });
        let at = NonNull::from(&entry.value);
        entry.next.store(bucket.first.load(Relaxed), Relaxed);
        // Release: the entry, for readers that find it.
        bucket.first.store(entry, Release);
        at
    }

    /// Takes the value of that number out; its memory is freed after a grace period. May wait for readers.
    /// `false` where there is none.
    ///
    /// # Panics
    /// Where the registry is of another memory, or read under another RCU.
    pub(crate) fn remove(&self, memory: &Memory<'m, M>, rcu: &Rcu<M::Cpu>, number: NonZeroU64) -> bool {
        self.take_out(number).map(|removed| removed.retire(memory, rcu)).is_some()
    }

    /// Takes the value of that number out, which readers may hold still: it is for the caller to
    /// [`retire`](Removed::retire), where it may wait. `None` where there is none.
    pub(crate) fn take_out(&self, number: NonZeroU64) -> Option<Removed<'_, 'm, T, M>> {
        let entry = self.unlink(number, |_| true)?;
        Some(Removed { registry: self, entry })
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
        let removed = self.unlink(number, is_it).map(|entry| Removed { registry: self, entry });
        removed.map(|removed| removed.retire(memory, rcu)).is_some()
    }

    fn unlink(
        &self,
        number: NonZeroU64,
        is_it: impl Fn(*const T) -> bool,
    ) -> Option<NonNull<RegistryEntry<T, M::Cpu>>> {
        let bucket = self.bucket(number);
        let held = bucket.lock.lock();
        let link = Self::link_to(bucket, &held, number, is_it)?;
        let at = NonNull::new(link.load(Relaxed))?;
        // SAFETY: as in `link_to`: the entry is linked.
        let entry = unsafe { at.as_ref() };
        link.store(entry.next.load(Relaxed), Release);
        Some(at)
    }

    /// The link of a bucket, whose lock is held, that leads to the first value of that number which is it.
    fn link_to<'a>(
        bucket: &'a Bucket<T, M::Cpu>,
        _held: &'a SpinGuard<'_, (), M::Cpu>,
        number: NonZeroU64,
        is_it: impl Fn(*const T) -> bool,
    ) -> Option<&'a Link<T, M::Cpu>> {
        let mut link = &bucket.first;
        loop {
            let at = NonNull::new(link.load(Relaxed))?;
            // SAFETY: an entry that is linked was filled before, and is not freed while it is; only the
            // holder of the lock unlinks one of this bucket.
            let entry = unsafe { at.as_ref() };
            if entry.number == number && is_it(&raw const entry.value) {
                return Some(link);
            }
            link = &entry.next;
        }
    }
}

/// A value that was taken out. Dropping it leaks its memory.
#[must_use = "a value that is not retired is leaked"]
pub(crate) struct Removed<'a, 'm, T, M: Machine> {
    registry: &'a Registry<'m, T, M>,
    /// An entry of the registry that this value's maker has unlinked.
    entry: NonNull<RegistryEntry<T, M::Cpu>>,
}

impl<'m, T: Send + Sync, M: Machine> Removed<'_, 'm, T, M> {
    /// Frees its memory after a grace period. May wait for readers.
    ///
    /// # Panics
    /// Where the registry is of another memory, or read under another RCU.
    pub(crate) fn retire(self, memory: &Memory<'m, M>, rcu: &Rcu<M::Cpu>) {
        let Self { registry, entry } = self;
        assert!(rcu.id() == registry.rcu, "a registry that is read under another RCU");
        let pool = registry.pool.with(memory);
        if mutant!("registry.freed-at-once") {
            // SAFETY: none, this is broken on purpose: a reader may use it.
            return unsafe { pool.free(entry) };
        }
        // SAFETY: (1) a section of the RCU that begins now does not find the entry, and it is freed here
        // only. (2) The head is the entry's first field and unused; the lock lets one thread unlink it. (3)
        // It is an object of this pool, and such lie in frames of the memory.
        unsafe { pool.retire(rcu, entry.cast()) };
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
