//! Reclaiming: a CPU's own free objects, and those of CPUs that went offline.

use super::garbage::RcuList;
use super::{NOT_IN_USE, Rcu, Reclaim, garbage_of};
use crate::machine::Cpu;
use crate::sync::atomic::Ordering::*;

/// Objects reclaimed between two moments where the thread may be preempted.
const BATCH: u32 = 32;

/// The reclaimer whose objects all garbage of the RCU is, which are valid as long as this exists. Only
/// [`Rcu::bound`] makes it.
pub(super) struct BoundReclaim<'r, R>(&'r R);

impl<C: Cpu> Rcu<'_, C> {
    /// Checks that all garbage is, and stays, that of `reclaim`.
    #[inline]
    pub(super) fn bound<'r, R: Reclaim>(&self, reclaim: &'r R) -> BoundReclaim<'r, R> {
        let id = reclaim.id().get();
        if self.reclaimer.load(Relaxed) != id {
            self.bind(id);
        }
        BoundReclaim(reclaim)
    }

    /// The first reclaimer is the one to which all garbage belongs from now on.
    #[cold]
    fn bind(&self, id: u64) {
        let bound = self.reclaimer.compare_exchange(0, id, Relaxed, Relaxed).err();
        let is_bound = bound.is_none_or(|bound| bound == id);
        assert!(is_bound || mutant!("rcu.reclaimer-not-checked"), "the garbage is another reclaimer's");
    }

    /// Takes over the free objects of CPUs that went offline.
    pub(super) fn adopt<R: Reclaim>(&self, _valid: &BoundReclaim<'_, R>) {
        if self.orphaned.load(Relaxed) == 0 {
            return;
        }
        let Some(mut orphans) = self.advance.try_lock() else { return };
        let free: RcuList = orphans.take_free::<C>(self.epoch.load(Acquire));
        drop(orphans);
        let count = u64::from(free.len());
        self.orphaned.fetch_sub(count, Relaxed);
        let local = self.cpus.get_cpu();
        local.count.add_own(count);
        local.with(garbage_of, |garbage| garbage.add_free::<C>(free)).expect(NOT_IN_USE);
    }

    pub(super) fn reclaim_free<R: Reclaim>(&self, reclaim: &BoundReclaim<'_, R>) {
        self.adopt(reclaim);
        while self.reclaim_batch(self.epoch.load(Acquire), reclaim) {}
    }

    /// Reclaims a batch of this CPU's objects that are free at `epoch`; false if there was none. The garbage
    /// is not in use meanwhile, so that reclaiming may retire again; objects retired then wait for another
    /// turn.
    pub(super) fn reclaim_batch<R: Reclaim>(&self, epoch: u64, reclaim: &BoundReclaim<'_, R>) -> bool {
        let local = self.cpus.get_cpu();
        let free = local.with(garbage_of, |garbage| garbage.begin::<C>(epoch)).expect(NOT_IN_USE);
        let Some(mut free) = free else { return false };
        for _ in 0..BATCH {
            let Some((object, tag)) = free.pop::<C>() else { break };
            local.count.add_own(u64::MAX);
            // SAFETY: it was retired with this tag, taken from the list here, and three epochs have passed
            // since. It was retired for a reclaimer of the one id that this RCU takes, which is that of
            // `reclaim`, as `bound` has checked both times.
            unsafe { reclaim.0.reclaim(tag, object) };
        }
        local.with(garbage_of, |garbage| garbage.end::<C>(free)).expect(NOT_IN_USE);
        true
    }
}
