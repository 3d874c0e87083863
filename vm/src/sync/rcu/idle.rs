//! CPUs that have nothing to run, or run something that never retires: their garbage must not wait for them.

use super::garbage::Garbage;
use super::{DeferredFree, Rcu, garbage_of};
use crate::machine::{Cpu, Machine};
use crate::sync::asymmetric::AsymmetricCell;
use crate::sync::atomic::Ordering::Relaxed;

impl<C: Cpu> Rcu<'_, C> {
    /// Called by a CPU that is about to wait for work: hands its garbage over, advances the epoch where the
    /// oldest orphan is `min_age_ns` old, and frees expired orphans. True where orphans are left:
    /// the platform calls again at its next tick, on any CPU. Each call with an age of 0 makes one step, and
    /// four such calls without a reader in the way leave nothing.
    ///
    /// An advance interrupts every CPU that is not idle, which the age limits to a few in that time, however
    /// often CPUs go idle. A CPU whose garbage would make the orphans more than twice what
    /// [`GarbageLimits`](super::GarbageLimits) allow all CPUs keeps it: then a reader is stuck.
    ///
    /// # Panics
    /// As [`Rcu::defer`].
    pub fn idle<M: Machine<Cpu = C>>(
        &self,
        machine: &M,
        min_age_ns: u64,
        memory: &impl DeferredFree,
    ) -> bool {
        let bound = self.bound(memory);
        if self.cpus.get_cpu().count.load(Relaxed) > 0 && self.has_room_for_orphans() {
            self.orphan(memory);
        }
        if self.orphaned.load(Relaxed) == 0 {
            return false;
        }
        let now_ns = C::now_ns();
        if self.advance.try_lock().is_some_and(|orphans| orphans.oldest_ns(now_ns) >= min_age_ns) {
            self.advance(|| machine.barrier_all());
        }
        self.free_expired(&bound);
        self.orphaned.load(Relaxed) > 0
    }

    /// Called by a CPU at each tick of a timer: polls where objects of this CPU, or orphans, have waited for
    /// `max_age_ns`. So no object of a CPU that ticks waits longer than that, four ticks and the readers in
    /// the way. Costs a few loads where nothing waits, and an advance only for objects of that age. May be
    /// called wherever [`Rcu::retire`] may; never waits for readers.
    ///
    /// # Panics
    /// As [`Rcu::defer`].
    pub fn tick<M: Machine<Cpu = C>>(&self, machine: &M, max_age_ns: u64, memory: &impl DeferredFree) {
        self.bound(memory);
        let is_old = |garbage: &Garbage| garbage.len() > 0 && garbage.oldest_ns(C::now_ns()) >= max_age_ns;
        let has_old = || {
            let local = self.cpus.get_cpu();
            let may_have = local.count.load(Relaxed) > 0 && !mutant!("rcu.tick-passes-own-garbage-by");
            may_have && AsymmetricCell::with(&local, garbage_of, |garbage| is_old(garbage)).unwrap_or(false)
        };
        let has_old_orphans = || {
            self.orphaned.load(Relaxed) > 0 && self.advance.try_lock().is_some_and(|orphans| is_old(&orphans))
        };
        if has_old() || has_old_orphans() {
            self.poll(machine, memory);
        }
    }

    fn has_room_for_orphans(&self) -> bool {
        let most = self.limits.most.saturating_mul(self.cpus.nr_cpus() as usize);
        self.advance.try_lock().is_some_and(|orphans| orphans.waiting() <= most)
    }
}
