//! Object pools: typed, fallible, per-CPU caches of small objects in single frames.
//!
//! ```text
//!   alloc ──► CPU's stack ──► partial slabs ──► spare slab ──► a frame
//!   free  ──► CPU's stack ──► its slab, and when that is empty: spare, or the frame goes back
//! ```
//!
//! A frame cut into objects is a slab (`slab`); its header is its frame's record, so objects lie from the
//! first byte on, and an object's slab is found from its address. Objects are words on the same stacks as
//! frames: physical addresses, taken over by a CPU that finds no memory elsewhere.
//!
//! The shared part of a pool lies in memory of its own and never moves, so its address can stand beside a
//! retired object: it is the tag that [`Rcu`] keeps, and how [`Memory`] finds the pool again.
//!
//! | lock | rank | guards |
//! |---|---|---|
//! | `drain` | `lockdep::DRAIN` | the right to claim CPUs' stacks |
//! | `slabs` | `lockdep::POOL` | the lists, the headers of its slabs, links in free objects |

use super::cache::{BATCH, Stack, Tally};
use super::slab::{Cut, Slabs};
use super::{AllocRequest, Kind, Memory};
use crate::machine::{Cpu, Machine};
use crate::sync::asymmetric::{AsymmetricCell, revoke_all};
use crate::sync::{CpuGuard, PerCpu, Rcu, RcuHead, SpinLock, lockdep};
use crate::units::{PAGE_SIZE, Pfn, PhysAddr};
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// A pool of `T`s. Pools are made at start, from memory that is never given back.
pub struct Pool<'m, T, M: Machine> {
    core: &'m PoolCore<M::Cpu>,
    _objects: PhantomData<fn() -> (T, M)>,
}

/// What all CPUs share of a pool, whatever its type.
pub(super) struct PoolCore<C: Cpu> {
    cut: Cut,
    slabs: SpinLock<Slabs<C>, C, { lockdep::POOL.0 }>,
    drain: SpinLock<(), C, { lockdep::DRAIN.0 }>,
    caches: PerCpu<ObjectCache<C>, C>,
}

/// A CPU's free objects.
#[repr(C)]
struct ObjectCache<C: Cpu> {
    tally: Tally<C>,
    objects: AsymmetricCell<Objects<C>, C>,
}

/// At most two batches of free objects.
type Objects<C> = Stack<C, { 2 * BATCH }>;

impl<C: Cpu> ObjectCache<C> {
    fn part(&self) -> &AsymmetricCell<Objects<C>, C> {
        &self.objects
    }
}

type OwnCache<'a, C> = CpuGuard<'a, ObjectCache<C>, C>;

impl<'m, T, M: Machine> Pool<'m, T, M> {
    /// An empty pool. `None` where memory does not suffice.
    pub fn new(memory: &Memory<'m, M>) -> Option<Self> {
        let cut = const { Cut::of(size_of::<T>(), align_of::<T>()) };
        let mut permanent = memory.boot_allocator();
        let cache = |_| ObjectCache { tally: Tally::new(), objects: AsymmetricCell::new(Stack::new()) };
        let caches = PerCpu::carve(&mut permanent, memory.machine.nr_cpus(), cache)?;
        let room = permanent.room(1)?;
        let (slabs, drain) = (SpinLock::new(Slabs::new()), SpinLock::new(()));
        let core = room.fill_one(PoolCore { cut, slabs, drain, caches });
        Some(Self { core, _objects: PhantomData })
    }

    /// Memory for an object, with anything in it.
    #[inline]
    pub fn alloc(&self, memory: &Memory<'m, M>) -> Option<NonNull<MaybeUninit<T>>> {
        if memory.mishap.strikes_object() {
            return None;
        }
        let own = self.core.caches.get_cpu();
        let popped = AsymmetricCell::with(&own, ObjectCache::part, |stack| stack.pop(&own.tally)).flatten();
        let word = match popped {
            Some(word) => word,
            None => self.core.refill(own, memory)?,
        };
        let object = memory.machine.window(PhysAddr(word)).cast::<MaybeUninit<T>>();
        #[cfg(loom)]
        crate::sync::forget(object.addr().get()..object.addr().get() + size_of::<T>());
        Some(object)
    }

    /// Takes back the memory of an object, whose value is not dropped.
    ///
    /// # Safety
    /// The object came from [`alloc`](Pool::alloc) of this pool and memory, is not free, and nobody uses it
    /// any more.
    #[inline]
    pub unsafe fn free(&self, memory: &Memory<'m, M>, object: NonNull<T>) {
        self.core.give(memory, memory.machine.phys_of(object.cast()));
    }

    /// What [`Rcu::retire`] is to keep beside an object of this pool, so that `memory` finds the pool when it
    /// reclaims. Not 0.
    pub fn tag(&self) -> usize {
        (&raw const *self.core).expose_provenance()
    }

    /// Retires an object by the head inside it: its memory is taken back after a grace period. May wait for
    /// readers.
    ///
    /// # Safety
    /// As [`Rcu::retire`]; and the object is one of this pool and memory.
    pub unsafe fn retire(&self, memory: &Memory<'m, M>, rcu: &Rcu<M::Cpu>, head: NonNull<RcuHead>) {
        // SAFETY: the caller's promise; the tag is this pool's, which `memory` knows how to reclaim.
        unsafe { rcu.retire(memory.machine, head, self.tag(), memory) }
    }

    /// Bytes that an object takes.
    pub fn object_bytes(&self) -> usize {
        self.core.cut.stride as usize
    }

    /// Frames that the pool has now.
    pub fn frames(&self) -> u64 {
        self.core.slabs.lock().frames()
    }

    /// Gives back what frames it can: every CPU's stack is emptied, and no spare is kept.
    pub fn shrink(&self, memory: &Memory<'m, M>) {
        self.core.drain_and(memory, || ());
        let spare = self.core.slabs.lock().take_spare();
        if let Some(pfn) = spare {
            memory.free_slab(pfn);
        }
    }
}

impl<C: Cpu> PoolCore<C> {
    /// The stack is empty (or claimed): a batch from the slabs, of which one is the answer.
    #[cold]
    #[inline(never)]
    fn refill<M: Machine<Cpu = C>>(&self, own: OwnCache<'_, C>, memory: &Memory<'_, M>) -> Option<u64> {
        // Taken inside, so that a claimant finds these objects in the slabs or in the stack.
        let taken =
            AsymmetricCell::with(&own, ObjectCache::part, |stack| self.take_batch(memory, &own.tally, stack));
        drop(own);
        let taken = taken.unwrap_or_else(|| self.take_one(&mut self.slabs.lock(), memory));
        taken.or_else(|| self.grow(memory))
    }

    /// Moves a batch from the slabs to the stack, all but the first object, which is the answer.
    fn take_batch<M: Machine<Cpu = C>>(
        &self,
        memory: &Memory<'_, M>,
        tally: &Tally<C>,
        stack: &mut Objects<C>,
    ) -> Option<u64> {
        let mut batch = [0; BATCH];
        let taken = self.take_from(&mut self.slabs.lock(), memory, &mut batch);
        let (&first, rest) = batch[..taken].split_first()?;
        let left = stack.fill(tally, rest);
        if left > 0 {
            self.put_back(memory, &rest[..left]);
        }
        Some(first)
    }

    /// An object of one more slab, or one that other CPUs had in stock.
    fn grow<M: Machine<Cpu = C>>(&self, memory: &Memory<'_, M>) -> Option<u64> {
        let Some(pfn) = memory.alloc_frame(AllocRequest::DIRTY) else {
            return self.drain_and(memory, || self.take_one(&mut self.slabs.lock(), memory));
        };
        memory.meta_of(pfn).put_to_use(Kind::Slab);
        // Under one lock: between two, other CPUs could take every object of the slab, and memory would seem
        // to lack.
        let mut slabs = self.slabs.lock();
        slabs.add(&memory.table, &self.cut, pfn);
        self.take_one(&mut slabs, memory)
    }

    fn take_one<M: Machine<Cpu = C>>(&self, slabs: &mut Slabs<C>, memory: &Memory<'_, M>) -> Option<u64> {
        let mut one = [0];
        (self.take_from(slabs, memory, &mut one) == 1).then_some(one[0])
    }

    fn take_from<M: Machine<Cpu = C>>(
        &self,
        slabs: &mut Slabs<C>,
        memory: &Memory<'_, M>,
        words: &mut [u64],
    ) -> usize {
        let mut take = || slabs.take(memory.machine, &memory.table, &self.cut);
        words.iter_mut().map_while(|word| take().map(|at| *word = at.0)).count()
    }

    /// An object comes back: to this CPU's stack, whose coldest half makes room if need be.
    #[inline]
    pub fn give<M: Machine<Cpu = C>>(&self, memory: &Memory<'_, M>, at: PhysAddr) {
        debug_assert_eq!(memory.meta_of(at.pfn()).state().kind(), Kind::Slab, "{at:?} is no object");
        debug_assert_eq!(at.offset() % self.cut.stride as usize, 0, "{at:?} is inside an object");
        let own = self.caches.get_cpu();
        let pushed = AsymmetricCell::with(&own, ObjectCache::part, |stack| stack.push(&own.tally, at.0));
        if pushed != Some(true) {
            self.spill(own, memory, at.0);
        }
    }

    #[cold]
    #[inline(never)]
    fn spill<M: Machine<Cpu = C>>(&self, own: OwnCache<'_, C>, memory: &Memory<'_, M>, word: u64) {
        let shifted = AsymmetricCell::with(&own, ObjectCache::part, |stack| {
            let mut batch = [0; BATCH];
            let taken = stack.shift(&own.tally, &mut batch);
            stack.push(&own.tally, word);
            self.put_back(memory, &batch[..taken]);
        });
        if shifted.is_none() {
            self.put_back(memory, &[word]);
        }
    }

    /// Objects go back to their slabs; slabs that are empty then, beyond one spare, go back to memory.
    fn put_back<M: Machine<Cpu = C>>(&self, memory: &Memory<'_, M>, words: &[u64]) {
        let (mut emptied, mut count) = ([Pfn(0); BATCH], 0);
        let mut slabs = self.slabs.lock();
        for &word in words {
            let empty = slabs.give(memory.machine, &memory.table, &self.cut, PhysAddr(word));
            if let Some(pfn) = empty {
                emptied[count] = pfn;
                count += 1;
            }
        }
        drop(slabs);
        emptied[..count].iter().for_each(|&pfn| memory.free_slab(pfn));
    }

    /// Every CPU's objects go back to their slabs; `then` is called before any can go to a stack again.
    fn drain_and<M: Machine<Cpu = C>, R>(&self, memory: &Memory<'_, M>, then: impl FnOnce() -> R) -> R {
        let _drain = self.drain.lock();
        let give_back = |cache: &ObjectCache<C>, stack: &mut Objects<C>| {
            let mut batch = [0; BATCH];
            while let taken @ 1.. = stack.shift(&cache.tally, &mut batch) {
                self.put_back(memory, &batch[..taken]);
            }
        };
        revoke_all(&self.caches, memory.machine, ObjectCache::part, give_back, then)
    }

    /// The first byte of the object that holds `at`.
    pub fn start_of(&self, at: PhysAddr) -> PhysAddr {
        PhysAddr(at.0 - at.offset() as u64 % u64::from(self.cut.stride))
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
        write!(f, "Pool of {} byte objects, {PAGE_SIZE} byte slabs", self.core.cut.stride)
    }
}
