//! Deferred frees: of a CPU's own expired objects, of those that no CPU owns, and of those of all CPUs. An
//! object has *expired* when its grace period is over.
//!
//! ```text
//!   free_all   three advances ─► revoke all CPUs' garbage:    ─► free the orphans ─► wait for the batches
//!              (bounded)         expired ones become orphans     batch by batch      that others are at
//! ```
//!
//! A CPU takes objects out by batches, and says so before: its count of batches is odd until they are
//! freed. So an object that was retired before `free_all` began is, once the garbage is revoked, among
//! the orphans, or in a batch whose count is seen to be odd, or freed; and where the lock has shown that
//! no orphan is left, that holds for the batches that others have taken from them.

use super::garbage::{Garbage, RcuList};
use super::{DeferredFree, GRACE, Local, NOT_IN_USE, OWN_SECTION, Rcu, assert_may_wait, garbage_of};
use crate::machine::{Cpu, Machine};
use crate::sync::asymmetric::{AsymmetricCell, revoke_all};
use crate::sync::atomic::{AtomicU64, Ordering::*, light_fence};
use crate::sync::{CpuGuard, wait_until};

/// Rounds of [`Cpu::spin`] without any step of the epoch after which a reader counts as stuck: some tenths of
/// a second, where a read section is a few hundred instructions. A round of a test takes longer.
const PATIENCE: u32 = if cfg!(test) { 1 << 18 } else { 1 << 20 };

/// The memory whose objects all garbage of the RCU is, which are valid as long as this exists. Only
/// [`Rcu::bound`] makes it.
pub(super) struct BoundMemory<'r, R>(&'r R);

/// A batch that this CPU frees, until this is dropped.
struct Batch<'a, C: Cpu>(&'a AtomicU64<C>);

impl<'a, C: Cpu> Batch<'a, C> {
    /// `None` where a caller on this stack frees one.
    fn begin(batches: &'a AtomicU64<C>) -> Option<Self> {
        // Relaxed: objects are taken out behind it, and a thread that looks for them acquires that.
        batches.load(Relaxed).is_multiple_of(2).then(|| batches.add_own(1))?;
        Some(Self(batches))
    }
}

impl<C: Cpu> Drop for Batch<'_, C> {
    fn drop(&mut self) {
        // Release: the objects are freed.
        self.0.store(self.0.load(Relaxed) + 1, Release);
    }
}

impl<C: Cpu> Rcu<'_, C> {
    /// Checks that all garbage is, and stays, that of `memory`.
    #[inline]
    pub(super) fn bound<'r, R: DeferredFree>(&self, memory: &'r R) -> BoundMemory<'r, R> {
        let id = memory.id().get();
        if self.memory_id.load(Relaxed) != id {
            self.bind(id);
        }
        BoundMemory(memory)
    }

    /// The first memory is the one to which all garbage belongs from now on.
    #[cold]
    fn bind(&self, id: u64) {
        let bound = self.memory_id.compare_exchange(0, id, Relaxed, Relaxed).err();
        let is_bound = bound.is_none_or(|bound| bound == id);
        assert!(is_bound || mutant!("rcu.reclaimer-not-checked"), "the garbage is another memory's");
    }

    /// Another CPU has revoked this one's garbage: the objects become orphans.
    #[cold]
    #[inline(never)]
    pub(super) fn defer_to_orphans(&self, local: &CpuGuard<'_, Local<C>, C>, epoch: u64, objects: RcuList) {
        assert!(!AsymmetricCell::is_in_use(local, garbage_of), "{NOT_IN_USE}");
        let count = u64::from(objects.len());
        let mut orphans = self.advance.lock();
        orphans.add::<C>(epoch, objects);
        // Under the lock, as all changes: a thread that takes orphans finds them counted.
        self.orphaned.fetch_add(count, Relaxed);
    }

    /// Hands this CPU's garbage over: it belongs to no CPU then, and the CPU that polls next frees what has
    /// expired. Called when this one goes offline. Garbage is linked through the objects, so this too
    /// needs a memory, as proof that they are valid.
    ///
    /// # Panics
    /// As [`Rcu::defer`].
    pub fn orphan(&self, memory: &impl DeferredFree) {
        self.bound(memory);
        let local = self.cpus.get_cpu();
        if local.count.load(Relaxed) == 0 {
            return;
        }
        let mut orphans = self.advance.lock();
        // Revokers hold the lock, so none is under way.
        let taken = AsymmetricCell::with(&local, garbage_of, |garbage| {
            let taken = garbage.take_all();
            local.count.store(0, Relaxed);
            taken
        });
        let taken = taken.expect(NOT_IN_USE);
        self.orphaned.fetch_add(u64::from(taken.len()), Relaxed);
        orphans.merge::<C>(taken);
    }

    /// Frees this CPU's expired objects, and expired orphans.
    pub(super) fn free_expired<R: DeferredFree>(&self, memory: &BoundMemory<'_, R>) {
        while self.free_own(&self.cpus.get_cpu(), None, memory) {}
        while self.free_orphans(memory, || Some(self.advance.try_lock()?.take_orphans(self))) {}
    }

    /// Frees a batch of this CPU's objects that have expired now, or at `epoch`; false if there was none. The
    /// garbage is not in use meanwhile, so that freeing may retire again.
    pub(super) fn free_own<R: DeferredFree>(
        &self,
        local: &CpuGuard<'_, Local<C>, C>,
        epoch: Option<u64>,
        memory: &BoundMemory<'_, R>,
    ) -> bool {
        let Some(_batch) = Batch::begin(&local.batches) else { return false };
        // On this CPU: the load that found objects free, when others came in their place, came before.
        let epoch = epoch.unwrap_or_else(|| self.epoch.load(Acquire));
        let free = AsymmetricCell::with(local, garbage_of, |garbage| {
            let free = garbage.take_batch::<C>(epoch);
            local.count.add_own(u64::from(free.len()).wrapping_neg());
            free
        });
        free_objects::<C, R>(free.unwrap_or_default(), memory)
    }

    /// As [`free_own`](Self::free_own), of the orphans that `take` returns.
    pub(super) fn free_orphans<R: DeferredFree>(
        &self,
        memory: &BoundMemory<'_, R>,
        take: impl FnOnce() -> Option<RcuList>,
    ) -> bool {
        if self.orphaned.load(Relaxed) == 0 {
            return false;
        }
        let local = self.cpus.get_cpu();
        let Some(_batch) = Batch::begin(&local.batches) else { return false };
        free_objects::<C, R>(take().unwrap_or_default(), memory)
    }

    /// Waits until no section that is now under way is left; `patience` is how many looks may find no step.
    /// False where a reader stays too long.
    pub(super) fn wait_for_readers<M: Machine<Cpu = C>>(&self, machine: &M, patience: Option<u32>) -> bool {
        // In every build: it would wait for itself.
        assert!(patience.is_some() || !self.reads_here(), "{OWN_SECTION}");
        light_fence::<C>();
        let (began_ns, mut before) = (C::now_ns(), self.epoch.load(Relaxed));
        let (end, mut looks) = (before + GRACE, 0_u32);
        loop {
            self.note_quiet();
            self.advance(|| machine.barrier_all());
            let epoch = self.epoch.load(Acquire);
            looks = if epoch == before { looks } else { 0 };
            before = epoch;
            match patience {
                _ if epoch >= end => break,
                Some(patience) if looks > patience => break,
                Some(patience) => looks = looks.saturating_add(C::spin(patience - looks + 1)),
                None => C::relax(),
            }
        }
        if before >= end {
            let took_ns = C::now_ns().saturating_sub(began_ns);
            let _ = self.longest_grace_ns.update(Relaxed, Relaxed, |ns| (took_ns > ns).then_some(took_ns));
        }
        before >= end
    }

    /// Frees all that any CPU had retired before: waits for the readers, takes over what other CPUs hold,
    /// and waits for the batches that they are at. Called where memory lacks. In a read section of this RCU,
    /// or while this CPU frees, it returns false and does nothing. Debug builds check the locks as for
    /// [`Rcu::retire`].
    ///
    /// In bounded time: false, too, where a reader does not leave for about a million looks; then what has
    /// expired without it has been freed.
    ///
    /// # Panics
    /// As [`Rcu::defer`].
    pub fn free_all<M: Machine<Cpu = C>>(&self, machine: &M, memory: &impl DeferredFree) -> bool {
        let memory = self.bound(memory);
        let local = self.cpus.get_cpu();
        if local.reader.word.load(Relaxed) != 0 || !local.batches.load(Relaxed).is_multiple_of(2) {
            return false;
        }
        drop(local);
        assert_may_wait::<C>();
        let have_left = self.wait_for_readers(machine, Some(PATIENCE));
        self.take_over(machine);
        while self.free_orphans(&memory, || Some(self.advance.lock().take_orphans(self))) {}
        self.wait_for_batches();
        have_left
    }

    /// Makes orphans of the free objects of every CPU.
    pub(super) fn take_over<M: Machine<Cpu = C>>(&self, machine: &M) {
        // The lock excludes other revokers, and CPUs that hand their garbage over.
        let mut orphans = self.advance.lock();
        let mut taken = 0;
        let take_one = |local: &Local<C>, garbage: &mut Garbage| {
            // Loaded after the owner's last section, which may have found objects free by a relaxed load.
            let early = if mutant!("rcu.taken-over-too-early") { GRACE } else { 0 };
            let free = garbage.take_expired::<C>(self.epoch.load(Acquire) + early);
            let count = u64::from(free.len());
            local.count.add_own(count.wrapping_neg());
            taken += count;
            orphans.add_expired::<C>(free);
        };
        revoke_all(&self.cpus, machine, garbage_of, take_one, || ());
        self.orphaned.fetch_add(taken, Relaxed);
    }

    /// Waits until each CPU is done with the batch that it is at now.
    pub(super) fn wait_for_batches(&self) {
        for (_, local) in self.cpus.iter() {
            // Acquire: pairs with the end of the batch.
            let seen = local.batches.load(Acquire);
            let is_done = || seen.is_multiple_of(2) || local.batches.load(Acquire) != seen;
            wait_until::<C>(|| is_done() || mutant!("rcu.batch-not-awaited"));
        }
    }
}

impl Garbage {
    /// Takes out a batch of the orphans of `rcu` that have expired; `self` are its orphans, locked.
    pub(super) fn take_orphans<C: Cpu>(&mut self, rcu: &Rcu<'_, C>) -> RcuList {
        let free = self.take_batch::<C>(rcu.epoch.load(Acquire));
        rcu.orphaned.fetch_sub(free.len().into(), Relaxed);
        free
    }
}

/// Frees the objects of a batch; false if there are none.
fn free_objects<C: Cpu, R: DeferredFree>(free: RcuList, memory: &BoundMemory<'_, R>) -> bool {
    let any = free.len() > 0;
    free.each::<C>(|object, tag| {
        // SAFETY: it was retired with this tag, was taken from a list of garbage for this batch, and three
        // epochs have passed since. It was retired for a memory of the one id that the RCU takes, which is
        // that of `memory`, as `bound` has checked both times.
        unsafe { memory.0.free_deferred(tag, object) };
    });
    any
}
