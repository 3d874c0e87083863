//! CPUs that have nothing to run: their garbage must not wait for them.

use super::{Rcu, Reclaim};
use crate::machine::{Cpu, Machine};
use crate::sync::atomic::Ordering::Relaxed;

impl<C: Cpu> Rcu<'_, C> {
    /// Called by a CPU that is about to wait for work: hands its garbage over, advances the epoch where the
    /// oldest orphan is `min_age_ns` old, and reclaims orphans that are free. True where orphans are left:
    /// the platform calls again at its next tick, on any CPU. Each call with an age of 0 makes one step, and
    /// four such calls without a reader in the way leave nothing.
    ///
    /// An advance interrupts every CPU that is not idle, which the age limits to a few in that time, however
    /// often CPUs go idle. A CPU whose garbage would make the orphans more than twice what
    /// [`GarbageLimits`](super::GarbageLimits) allow all CPUs keeps it: then a reader is stuck.
    ///
    /// # Panics
    /// As [`Rcu::defer`].
    pub fn idle<M: Machine<Cpu = C>>(&self, machine: &M, min_age_ns: u64, reclaim: &impl Reclaim) -> bool {
        let bound = self.bound(reclaim);
        if self.cpus.get_cpu().count.load(Relaxed) > 0 && self.has_room_for_orphans() {
            self.orphan(reclaim);
        }
        if self.orphaned.load(Relaxed) == 0 {
            return false;
        }
        let now_ns = C::now_ns();
        if self.advance.try_lock().is_some_and(|orphans| orphans.oldest_ns(now_ns) >= min_age_ns) {
            self.advance(|| machine.barrier_all());
        }
        self.reclaim_free(&bound);
        self.orphaned.load(Relaxed) > 0
    }

    fn has_room_for_orphans(&self) -> bool {
        let most = self.limits.most.saturating_mul(self.cpus.nr_cpus() as usize);
        self.advance.try_lock().is_some_and(|orphans| orphans.waiting() <= most)
    }
}
