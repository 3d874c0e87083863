//! A pool: a stack of free objects on each CPU, and slabs behind them.

use super::slabs::{SlabLayout, SlabLists};
use crate::frame::percpu::{BATCH, Count, Stack};
use crate::frame::{AllocRequest, Kind, Memory};
use crate::machine::{Cpu, Machine};
use crate::sync::asymmetric::{AsymmetricCell, revoke_all};
use crate::sync::{CpuGuard, PerCpu, Rcu, RcuHead, SpinLock, lockdep};
use crate::units::{PAGE_SIZE, Pfn, PhysAddr};
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// A pool of `T`s. Pools are made at start, in memory that is never freed. (Linux: `kmem_cache`.)
pub struct Pool<'m, T, M: Machine> {
    core: &'m PoolCore<M::Cpu>,
    _objects: PhantomData<fn() -> (T, M)>,
}

/// The part of a pool that all CPUs share, independent of the type of its objects. It never moves.
pub(in crate::frame) struct PoolCore<C: Cpu> {
    layout: SlabLayout,
    slabs: SpinLock<SlabLists<C>, C, { lockdep::POOL.0 }>,
    drain: SpinLock<(), C, { lockdep::DRAIN.0 }>,
    caches: PerCpu<ObjectCache<C>, C>,
}

/// A CPU's free objects.
#[repr(C)]
struct ObjectCache<C: Cpu> {
    count: Count<C>,
    objects: AsymmetricCell<ObjectStack<C>, C>,
}

/// At most two batches of free objects.
type ObjectStack<C> = Stack<C, { 2 * BATCH }>;

impl<C: Cpu> ObjectCache<C> {
    fn objects(&self) -> &AsymmetricCell<ObjectStack<C>, C> {
        &self.objects
    }
}

/// This CPU's free objects, preemption off.
type LocalObjects<'a, C> = CpuGuard<'a, ObjectCache<C>, C>;

impl<'m, T, M: Machine> Pool<'m, T, M> {
    /// An empty pool. `None` where memory does not suffice.
    pub fn new(memory: &Memory<'m, M>) -> Option<Self> {
        let layout = const { SlabLayout::of(size_of::<T>(), align_of::<T>()) };
        let mut allocator = memory.boot_allocator();
        let cache = |_| ObjectCache { count: Count::new(), objects: AsymmetricCell::new(Stack::new()) };
        let caches = PerCpu::carve(&mut allocator, memory.machine.nr_cpus(), cache)?;
        let slot = allocator.uninit_slice(1)?;
        let (slabs, drain) = (SpinLock::new(SlabLists::new()), SpinLock::new(()));
        let core = slot.fill_one(PoolCore { layout, slabs, drain, caches });
        Some(Self { core, _objects: PhantomData })
    }

    /// Allocates memory for an object, uninitialised.
    #[inline]
    pub fn alloc(&self, memory: &Memory<'m, M>) -> Option<NonNull<MaybeUninit<T>>> {
        if memory.mishap.strikes_object() {
            return None;
        }
        let cache = self.core.caches.get_cpu();
        let popped =
            AsymmetricCell::with(&cache, ObjectCache::objects, |stack| stack.pop(&cache.count)).flatten();
        let word = match popped {
            Some(word) => word,
            None => self.core.refill(cache, memory)?,
        };
        let object = memory.machine.window(PhysAddr(word)).cast::<MaybeUninit<T>>();
        #[cfg(loom)]
        crate::sync::forget(object.addr().get()..object.addr().get() + size_of::<T>());
        Some(object)
    }

    /// Frees the memory of an object, whose value is not dropped.
    ///
    /// # Safety
    /// The object came from [`alloc`](Pool::alloc) of this pool and memory, is not free, and is not
    /// used any more.
    #[inline]
    pub unsafe fn free(&self, memory: &Memory<'m, M>, object: NonNull<T>) {
        self.core.free(memory, memory.machine.phys_of(object.cast()));
    }

    /// The tag that [`Rcu::retire`] keeps beside an object of this pool, by which `memory` finds the pool
    /// again when it reclaims the object. Neither 0 nor 1.
    pub fn tag(&self) -> usize {
        (&raw const *self.core).expose_provenance()
    }

    /// Retires an object by the head inside it: its memory is freed after a grace period. May wait for
    /// readers.
    ///
    /// # Safety
    /// As [`Rcu::retire`]; and the object is one of this pool and memory.
    pub unsafe fn retire(&self, memory: &Memory<'m, M>, rcu: &Rcu<M::Cpu>, head: NonNull<RcuHead>) {
        // SAFETY: the caller's promise; the tag is this pool's, which `memory` knows how to reclaim.
        unsafe { rcu.retire(memory.machine, head, self.tag(), memory) }
    }

    /// Bytes of an object, padding included.
    pub fn object_bytes(&self) -> usize {
        self.core.layout.stride as usize
    }

    /// Frames that the pool has now.
    pub fn frames(&self) -> u64 {
        self.core.slabs.lock().frames()
    }

    /// Frees as many frames as possible: drains every CPU's stack, and keeps no spare slab.
    pub fn shrink(&self, memory: &Memory<'m, M>) {
        self.core.drain_and(memory, || ());
        let spare = self.core.slabs.lock().take_spare();
        if let Some(pfn) = spare {
            memory.free_slab(pfn);
        }
    }
}

impl<C: Cpu> PoolCore<C> {
    /// The stack is empty, or revoked: refills it from the slabs, and allocates one object of the batch.
    #[cold]
    #[inline(never)]
    fn refill<M: Machine<Cpu = C>>(&self, cache: LocalObjects<'_, C>, memory: &Memory<'_, M>) -> Option<u64> {
        // While the owner uses the stack, so that a CPU that revokes it finds these objects in the slabs or
        // in the stack.
        let taken = AsymmetricCell::with(&cache, ObjectCache::objects, |stack| {
            self.refill_stack(memory, &cache.count, stack)
        });
        drop(cache);
        let taken = taken.unwrap_or_else(|| self.alloc_one(&mut self.slabs.lock(), memory));
        taken.or_else(|| self.add_slab(memory))
    }

    /// Moves a batch from the slabs to the stack, all but the first object, which is returned.
    fn refill_stack<M: Machine<Cpu = C>>(
        &self,
        memory: &Memory<'_, M>,
        count: &Count<C>,
        stack: &mut ObjectStack<C>,
    ) -> Option<u64> {
        let mut batch = [0; BATCH];
        let taken = self.alloc_batch(&mut self.slabs.lock(), memory, &mut batch);
        let (&first, rest) = batch[..taken].split_first()?;
        let left = stack.refill(count, rest);
        if left > 0 {
            self.free_to_slabs(memory, &rest[..left]);
        }
        Some(first)
    }

    /// Allocates an object of a new slab, or one that another CPU had cached.
    fn add_slab<M: Machine<Cpu = C>>(&self, memory: &Memory<'_, M>) -> Option<u64> {
        let Some(pfn) = memory.alloc_frame(AllocRequest::DIRTY) else {
            return self.drain_and(memory, || self.alloc_one(&mut self.slabs.lock(), memory));
        };
        memory.meta_of(pfn).put_to_use(Kind::Slab);
        // Both under one lock: in between, other CPUs could allocate every object of the slab, and memory
        // would seem to be used up.
        let mut slabs = self.slabs.lock();
        slabs.add(&memory.table, &self.layout, pfn);
        self.alloc_one(&mut slabs, memory)
    }

    fn alloc_one<M: Machine<Cpu = C>>(
        &self,
        slabs: &mut SlabLists<C>,
        memory: &Memory<'_, M>,
    ) -> Option<u64> {
        let mut one = [0];
        (self.alloc_batch(slabs, memory, &mut one) == 1).then_some(one[0])
    }

    fn alloc_batch<M: Machine<Cpu = C>>(
        &self,
        slabs: &mut SlabLists<C>,
        memory: &Memory<'_, M>,
        words: &mut [u64],
    ) -> usize {
        let mut alloc = || slabs.alloc(memory.machine, &memory.table, &self.layout);
        words.iter_mut().map_while(|word| alloc().map(|at| *word = at.0)).count()
    }

    /// Frees an object to this CPU's stack, whose coldest half is spilled if it is full.
    #[inline]
    pub fn free<M: Machine<Cpu = C>>(&self, memory: &Memory<'_, M>, at: PhysAddr) {
        debug_assert_eq!(memory.meta_of(at.pfn()).state().kind(), Kind::Slab, "{at:?} is not an object");
        debug_assert_eq!(at.offset() % self.layout.stride as usize, 0, "{at:?} is inside an object");
        let cache = self.caches.get_cpu();
        let pushed =
            AsymmetricCell::with(&cache, ObjectCache::objects, |stack| stack.push(&cache.count, at.0));
        if pushed != Some(true) {
            self.spill(cache, memory, at.0);
        }
    }

    #[cold]
    #[inline(never)]
    fn spill<M: Machine<Cpu = C>>(&self, cache: LocalObjects<'_, C>, memory: &Memory<'_, M>, word: u64) {
        let shifted = AsymmetricCell::with(&cache, ObjectCache::objects, |stack| {
            let mut batch = [0; BATCH];
            let taken = stack.take_coldest(&cache.count, &mut batch);
            stack.push(&cache.count, word);
            self.free_to_slabs(memory, &batch[..taken]);
        });
        if shifted.is_none() {
            self.free_to_slabs(memory, &[word]);
        }
    }

    /// Frees objects to their slabs, and the frames of slabs that are empty then, beyond one spare.
    fn free_to_slabs<M: Machine<Cpu = C>>(&self, memory: &Memory<'_, M>, words: &[u64]) {
        let (mut emptied, mut nr_emptied) = ([Pfn(0); BATCH], 0);
        let mut slabs = self.slabs.lock();
        for &word in words {
            let empty = slabs.free(memory.machine, &memory.table, &self.layout, PhysAddr(word));
            if let Some(pfn) = empty {
                emptied[nr_emptied] = pfn;
                nr_emptied += 1;
            }
        }
        drop(slabs);
        emptied[..nr_emptied].iter().for_each(|&pfn| memory.free_slab(pfn));
    }

    /// Frees every CPU's objects to their slabs, and calls `then` before any can go to a stack again.
    fn drain_and<M: Machine<Cpu = C>, R>(&self, memory: &Memory<'_, M>, then: impl FnOnce() -> R) -> R {
        let _drain = self.drain.lock();
        let drain_one = |cache: &ObjectCache<C>, stack: &mut ObjectStack<C>| {
            let mut batch = [0; BATCH];
            while let taken @ 1.. = stack.take_coldest(&cache.count, &mut batch) {
                self.free_to_slabs(memory, &batch[..taken]);
            }
        };
        revoke_all(&self.caches, memory.machine, ObjectCache::objects, drain_one, then)
    }

    /// The first byte of the object that contains `at`.
    pub fn start_of(&self, at: PhysAddr) -> PhysAddr {
        PhysAddr(at.0 - at.offset() as u64 % u64::from(self.layout.stride))
    }
}

impl<T, M: Machine> Clone for Pool<'_, T, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, M: Machine> Copy for Pool<'_, T, M> {}

impl<T, M: Machine> fmt::Debug for Pool<'_, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool of {} byte objects, {PAGE_SIZE} byte slabs", self.core.layout.stride)
    }
}
