//! A pool: a stack of free objects on each CPU, and slabs behind them.

use super::slabs::{SlabLayout, SlabLists};
use super::words::CarvedWords;
use crate::frame::percpu::{BATCH, Count, LEN, Stack};
use crate::frame::{AllocRequest, Kind, Memory};
use crate::machine::{Cpu, Machine};
use crate::sync::asymmetric::{AsymmetricCell, revoke_all};
use crate::sync::atomic::{AtomicUsize, Ordering::*};
use crate::sync::{
    CacheAligned, CpuGuard, GarbageLimits, PerCpu, Rcu, RcuHead, SpinLock, UniqueId, carve_value, lockdep,
};
use crate::units::{PAGE_SIZE, Pfn, PhysAddr};
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// A pool of `T`s. Pools are made at start, in memory that is never freed. (Linux: `kmem_cache`.)
pub struct SlabPool<'m, T, M: Machine> {
    core: &'m SlabPoolCore<'m, M::Cpu>,
    _objects: PhantomData<fn() -> (T, M)>,
}

/// A pool, and the memory that its slabs are frames of.
pub struct BoundSlabPool<'a, 'm, T, M: Machine> {
    core: &'a SlabPoolCore<'m, M::Cpu>,
    memory: &'a Memory<'m, M>,
    _objects: PhantomData<fn() -> T>,
}

/// The part of a pool that all CPUs share, independent of the type of its objects. It never moves.
struct SlabPoolCore<'m, C: Cpu> {
    layout: SlabLayout,
    /// The memory that the slabs are frames of.
    memory: UniqueId,
    /// Not on a line that every allocation reads.
    slabs: CacheAligned<SpinLock<SlabLists<C>, C, { lockdep::SLAB.0 }>>,
    drain: CacheAligned<SpinLock<(), C, { lockdep::DRAIN.0 }>>,
    caches: PerCpu<'m, ObjectCache<C>, C>,
    /// The [tag](BoundSlabPool::tag) of the pool that was made for the memory before this one; 0 for none.
    /// Relaxed: written before the pool is listed.
    before: AtomicUsize<C>,
}

/// A CPU's free objects.
#[repr(C)]
struct ObjectCache<C: Cpu> {
    count: Count<C>,
    objects: AsymmetricCell<ObjectStack<C>, C>,
}

/// Free objects, as many as [`stack_len`] says.
type ObjectStack<C> = Stack<C, CarvedWords<C>>;

/// Number of objects of `stride` bytes that a CPU's stack holds: the garbage of three epochs and the lot that
/// waits for the next poll, where they consist of such objects, and one lot that is left when all of that
/// comes back at once. Two batches at least; beyond that, no more than a stack whose words take 1/1024 of the
/// CPU's share of memory.
fn stack_len(stride: u32, limits: GarbageLimits, share_bytes: u64) -> usize {
    let words = (share_bytes / 1024 / size_of::<u64>() as u64).min(LEN / 16 * 16) as usize;
    (5 * limits.lot_bytes() / stride as usize).min(words).max(2 * BATCH)
}

impl<C: Cpu> ObjectCache<C> {
    fn objects(&self) -> &AsymmetricCell<ObjectStack<C>, C> {
        &self.objects
    }
}

/// This CPU's free objects, preemption off.
type LocalObjects<'a, C> = CpuGuard<'a, ObjectCache<C>, C>;

impl<'m, T, M: Machine> SlabPool<'m, T, M> {
    /// An empty pool, whose slabs will be frames of `memory`. `None` where memory does not suffice.
    pub fn new(memory: &Memory<'m, M>) -> Option<Self> {
        let layout = const { SlabLayout::of(size_of::<T>(), align_of::<T>()) };
        let mut allocator = memory.boot_allocator();
        let nr_cpus = memory.machine.nr_cpus();
        let share_bytes = memory.bytes() / u64::from(nr_cpus.max(1));
        let len = stack_len(layout.stride, memory.garbage_limits(), share_bytes);
        let mut words = memory.boot_allocator();
        let mut is_complete = true;
        let cache = |_| {
            // SAFETY: they go into this pool, which is used for `'m` at most.
            let words = unsafe { CarvedWords::carve(&mut words, len) };
            is_complete &= words.is_some();
            let stack = Stack::new(words.unwrap_or(CarvedWords::none()));
            ObjectCache { count: Count::new(), objects: AsymmetricCell::new(stack) }
        };
        let caches = PerCpu::carve(&mut allocator, nr_cpus, cache)?;
        if !is_complete {
            return None;
        }
        let slabs = CacheAligned(SpinLock::new(SlabLists::new()));
        let drain = CacheAligned(SpinLock::new(()));
        let core =
            SlabPoolCore { layout, memory: memory.id(), slabs, drain, caches, before: AtomicUsize::new(0) };
        let core = carve_value(&mut allocator, core)?;
        Self::list(memory, core);
        Some(Self { core, _objects: PhantomData })
    }

    /// Puts the pool at the head of the memory's list of pools, from which none is taken.
    fn list(memory: &Memory<'m, M>, core: &'m SlabPoolCore<'m, M::Cpu>) {
        let tag = (&raw const *core).expose_provenance();
        let mut last = memory.pools.load(Relaxed);
        loop {
            core.before.store(last, Relaxed);
            // Release: the pool, for `shrink_all`, which acquires.
            match memory.pools.compare_exchange(last, tag, Release, Relaxed) {
                Ok(_) => return,
                Err(now) => last = now,
            }
        }
    }

    /// The pool with its memory, through which objects are allocated.
    ///
    /// # Panics
    /// If `memory` is not the one that the pool was made for.
    pub fn with<'a>(&self, memory: &'a Memory<'m, M>) -> BoundSlabPool<'a, 'm, T, M> {
        let is_own = memory.id() == self.core.memory;
        assert!(is_own || mutant!("slab.memory-not-checked"), "a pool is used with its own memory");
        BoundSlabPool { core: self.core, memory, _objects: PhantomData }
    }

    /// Bytes of an object, padding included.
    pub fn object_bytes(&self) -> usize {
        self.core.layout.stride as usize
    }

    /// Frames that the pool has now.
    pub fn frames(&self) -> u64 {
        self.core.slabs.lock().frames()
    }
}

impl<T, M: Machine> BoundSlabPool<'_, '_, T, M> {
    /// Allocates memory for an object, uninitialised.
    #[inline]
    pub fn alloc(&self) -> Option<NonNull<MaybeUninit<T>>> {
        if self.memory.mishap.strikes_object() {
            return None;
        }
        let cache = self.core.caches.get_cpu();
        let popped =
            AsymmetricCell::with(&cache, ObjectCache::objects, |stack| stack.pop(&cache.count)).flatten();
        let word = match popped {
            Some(word) => word,
            None => self.refill(cache)?,
        };
        let object = self.memory.machine.window(PhysAddr(word)).cast::<MaybeUninit<T>>();
        #[cfg(loom)]
        crate::sync::forget(object.addr().get()..object.addr().get() + size_of::<T>());
        Some(object)
    }

    /// Frees the memory of an object, whose value is not dropped.
    ///
    /// # Safety
    /// The object came from [`alloc`](Self::alloc) of this pool, is not free, and is not used any more.
    #[inline]
    pub unsafe fn free(&self, object: NonNull<T>) {
        // SAFETY: the caller's promise; the window's inverse is the object's first byte.
        unsafe { self.free_at(self.memory.machine.phys_of(object.cast())) }
    }

    /// The tag that [`Rcu::retire`] keeps beside an object of this pool, by which the memory finds the pool
    /// again when it reclaims the object. Neither 0 nor 1.
    pub fn tag(&self) -> usize {
        (&raw const *self.core).expose_provenance()
    }

    /// Retires an object by the head inside it: its memory is freed after a grace period. May wait for
    /// readers.
    ///
    /// # Safety
    /// As [`Rcu::defer`], 1 and 2; and the object is one of this pool.
    pub unsafe fn retire(&self, rcu: &Rcu<M::Cpu>, head: NonNull<RcuHead>) {
        let bytes = self.core.layout.stride as usize;
        // SAFETY: the caller's promise; the tag is this pool's, which is one of the memory.
        unsafe { rcu.retire(self.memory.machine, head, self.tag(), bytes, self.memory) }
    }

    /// Frees as many frames as possible: drains every CPU's stack, and keeps no spare slab.
    pub fn shrink(&self) {
        self.drain_and(|| ());
        let spare = self.core.slabs.lock().take_spare();
        if let Some(pfn) = spare {
            self.memory.free_slab(pfn);
        }
    }

    /// The stack is empty, or revoked: refills it from the slabs, and allocates one object of the batch.
    #[cold]
    #[inline(never)]
    fn refill(&self, cache: LocalObjects<'_, M::Cpu>) -> Option<u64> {
        // While the owner uses the stack, so that a CPU that revokes it finds these objects in the slabs or
        // in the stack.
        let taken =
            AsymmetricCell::with(&cache, ObjectCache::objects, |stack| self.refill_stack(&cache, stack));
        drop(cache);
        // SAFETY: this pool's lists.
        let taken = taken.unwrap_or_else(|| unsafe { self.alloc_one(&mut self.core.slabs.lock()) });
        taken.or_else(|| self.add_slab())
    }

    /// Moves a batch from the slabs to the stack, all but the first object, which is returned.
    fn refill_stack(&self, cache: &ObjectCache<M::Cpu>, stack: &mut ObjectStack<M::Cpu>) -> Option<u64> {
        let mut batch = [0; BATCH];
        // SAFETY: this pool's lists.
        let taken = unsafe { self.alloc_batch(&mut self.core.slabs.lock(), &mut batch) };
        let (&first, rest) = batch[..taken].split_first()?;
        let left = stack.refill(&cache.count, rest);
        if left > 0 {
            // SAFETY: allocated just now, and not given out.
            unsafe { self.free_to_slabs(&rest[..left]) };
        }
        Some(first)
    }

    /// Allocates an object of a new slab, or one that another CPU had cached.
    fn add_slab(&self) -> Option<u64> {
        let memory = self.memory;
        let Some(pfn) = memory.take_frame(AllocRequest::DIRTY) else {
            // SAFETY: this pool's lists.
            return self.drain_and(|| unsafe { self.alloc_one(&mut self.core.slabs.lock()) });
        };
        memory.meta_of(pfn).put_to_use(Kind::Slab);
        // Both under one lock: in between, other CPUs could allocate every object of the slab, and memory
        // would seem to be used up.
        let mut slabs = self.core.slabs.lock();
        // SAFETY: this pool's lists; the frame was just taken from their memory, and nothing else has it.
        unsafe {
            slabs.add(&memory.table, &self.core.layout, pfn);
            self.alloc_one(&mut slabs)
        }
    }

    /// # Safety
    /// As [`alloc_batch`](Self::alloc_batch).
    unsafe fn alloc_one(&self, slabs: &mut SlabLists<M::Cpu>) -> Option<u64> {
        let mut one = [0];
        // SAFETY: the caller's promise.
        let taken = unsafe { self.alloc_batch(slabs, &mut one) };
        (taken == 1).then_some(one[0])
    }

    /// # Safety
    /// The lists are this pool's.
    unsafe fn alloc_batch(&self, slabs: &mut SlabLists<M::Cpu>, words: &mut [u64]) -> usize {
        let (memory, layout) = (self.memory, &self.core.layout);
        // SAFETY: the caller says that the lists are this pool's; `with` has checked that its slabs are
        // frames of this memory.
        let mut alloc = || unsafe { slabs.alloc(memory.machine, &memory.table, layout) };
        words.iter_mut().map_while(|word| alloc().map(|at| *word = at.0)).count()
    }

    /// Frees the object that starts at `at` to this CPU's stack, whose coldest half is spilled if it is full.
    ///
    /// # Safety
    /// As [`free`](Self::free).
    #[inline]
    unsafe fn free_at(&self, at: PhysAddr) {
        let kind = || self.memory.meta_of(at.pfn()).state().kind();
        debug_assert_eq!(kind(), Kind::Slab, "{at:?} is not an object");
        debug_assert_eq!(at.offset() % self.core.layout.stride as usize, 0, "{at:?} is inside an object");
        let cache = self.core.caches.get_cpu();
        let pushed =
            AsymmetricCell::with(&cache, ObjectCache::objects, |stack| stack.push(&cache.count, at.0));
        if pushed != Some(true) {
            // SAFETY: the caller's promise.
            unsafe { self.spill(cache, at.0) };
        }
    }

    /// # Safety
    /// As [`free`](Self::free).
    #[cold]
    #[inline(never)]
    unsafe fn spill(&self, cache: LocalObjects<'_, M::Cpu>, word: u64) {
        let shifted = AsymmetricCell::with(&cache, ObjectCache::objects, |stack| {
            let mut batch = [0; BATCH];
            let taken = stack.take_coldest(&cache.count, &mut batch);
            stack.push(&cache.count, word);
            // SAFETY: what lies in a stack was freed to it, or allocated for it, and is taken from it here.
            unsafe { self.free_to_slabs(&batch[..taken]) };
        });
        if shifted.is_none() {
            // SAFETY: the caller's promise.
            unsafe { self.free_to_slabs(&[word]) };
        }
    }

    /// Frees objects to their slabs, and the frames of slabs that are empty then, beyond one spare.
    ///
    /// # Safety
    /// As [`free`](Self::free), for each.
    unsafe fn free_to_slabs(&self, words: &[u64]) {
        let memory = self.memory;
        let (mut emptied, mut nr_emptied) = ([Pfn(0); BATCH], 0);
        let mut slabs = self.core.slabs.lock();
        for &word in words {
            // SAFETY: the lists are this pool's, whose slabs are frames of this memory; for the object the
            // caller's promise.
            let empty =
                unsafe { slabs.free(memory.machine, &memory.table, &self.core.layout, PhysAddr(word)) };
            if let Some(pfn) = empty {
                emptied[nr_emptied] = pfn;
                nr_emptied += 1;
            }
        }
        drop(slabs);
        emptied[..nr_emptied].iter().for_each(|&pfn| memory.free_slab(pfn));
    }

    /// Frees every CPU's objects to their slabs, and calls `then` before any can go to a stack again.
    fn drain_and<R>(&self, then: impl FnOnce() -> R) -> R {
        let _drain = self.core.drain.lock();
        let drain_one = |cache: &ObjectCache<M::Cpu>, stack: &mut ObjectStack<M::Cpu>| {
            let mut batch = [0; BATCH];
            while let taken @ 1.. = stack.take_coldest(&cache.count, &mut batch) {
                // SAFETY: as in `spill`.
                unsafe { self.free_to_slabs(&batch[..taken]) };
            }
        };
        revoke_all(&self.core.caches, self.memory.machine, ObjectCache::objects, drain_one, then)
    }
}

impl<'a, 'm, M: Machine> BoundSlabPool<'a, 'm, (), M> {
    /// [Shrinks](BoundSlabPool::shrink) every pool of the memory. One that is made meanwhile may be left out.
    pub(in crate::frame) fn shrink_all(memory: &'a Memory<'m, M>) {
        let mut tag = memory.pools.load(Acquire);
        while tag != 0 {
            // SAFETY: a tag in the list is the address of a pool of this memory (`SlabPool::list`), which was
            // written before it was listed; pools are never freed.
            let core = unsafe { &*core::ptr::with_exposed_provenance::<SlabPoolCore<'_, M::Cpu>>(tag) };
            debug_assert_eq!(core.memory, memory.id());
            let is_last = tag == memory.pools.load(Relaxed);
            if !is_last || !mutant!("slab.last-pool-kept") {
                BoundSlabPool::<(), M> { core, memory, _objects: PhantomData }.shrink();
            }
            tag = core.before.load(Relaxed);
        }
    }

    /// Frees an object that was retired with the tag of its pool, by its head.
    ///
    /// # Safety
    /// The object was retired for `memory` with this tag, and is not used any more.
    pub(in crate::frame) unsafe fn reclaim(memory: &'a Memory<'m, M>, tag: usize, head: NonNull<RcuHead>) {
        // SAFETY: the tag is the address of a pool of this memory; pools are never freed.
        let core = unsafe { &*core::ptr::with_exposed_provenance::<SlabPoolCore<'_, M::Cpu>>(tag) };
        debug_assert_eq!(core.memory, memory.id());
        let at = memory.machine.phys_of(head.cast());
        let start = PhysAddr(at.0 - at.offset() as u64 % u64::from(core.layout.stride));
        // SAFETY: the object that contains the head is one of that pool, says the caller.
        unsafe { BoundSlabPool::<(), M> { core, memory, _objects: PhantomData }.free_at(start) }
    }
}

impl<T, M: Machine> Clone for BoundSlabPool<'_, '_, T, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, M: Machine> Copy for BoundSlabPool<'_, '_, T, M> {}

impl<T, M: Machine> Clone for SlabPool<'_, T, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, M: Machine> Copy for SlabPool<'_, T, M> {}

impl<T, M: Machine> fmt::Debug for SlabPool<'_, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlabPool of {} byte objects, {PAGE_SIZE} byte slabs", self.core.layout.stride)
    }
}

impl<T, M: Machine> fmt::Debug for BoundSlabPool<'_, '_, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlabPool of {} byte objects", self.core.layout.stride)
    }
}
