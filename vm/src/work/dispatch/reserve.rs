//! Reserved workers: the helpers of certain CPUs, which visit one caller's item whenever it notifies them.

use super::item::WorkItem;
use super::{Dispatch, Published};
use crate::machine::Cpu;
use crate::units::{CpuId, CpuMask, NodeMask};
use core::fmt;

/// Reserved workers; released when dropped.
#[must_use = "the workers are released when this is dropped"]
pub struct Reserved<'d, C: Cpu> {
    dispatch: &'d Dispatch<C>,
    cpus: CpuMask,
}

impl<C: Cpu> Dispatch<C> {
    /// Reserves the idle helpers of `cpus`, as many as the limit allows.
    pub fn reserve(&self, cpus: &CpuMask) -> Reserved<'_, C> {
        let granted = self.limit.begin(cpus.count());
        let mut reserved = Reserved { dispatch: self, cpus: CpuMask::EMPTY };
        let workers = cpus.iter().filter(|cpu| cpu.0 < self.nr_cpus());
        let idle = workers.filter(|&cpu| self.workers.of(cpu).reserve());
        idle.take(granted as usize).for_each(|cpu| {
            reserved.cpus.insert(cpu);
            self.parked.remove(cpu);
        });
        let count = reserved.cpus.count();
        self.limit.end(granted - count);
        self.limit.reserve(count);
        // One of them may have been notified for an item that is published.
        self.notify_for_published(C::id());
        reserved
    }

    /// Notifies the reserved worker of `cpu`, which visits its item again. False where the CPU has no helper.
    pub fn notify(&self, cpu: CpuId) -> bool {
        self.workers.of(cpu).notify()
    }
}

impl<C: Cpu> Reserved<'_, C> {
    /// The CPUs of the workers.
    pub fn cpus(&self) -> &CpuMask {
        &self.cpus
    }

    /// Publishes `item` for these workers while `own` runs: each visits it when it is notified. When this
    /// returns, or unwinds, no helper visits the item or will. `None` where no work slot is free.
    ///
    /// May sleep, until the visits under way have ended.
    pub fn publish<R>(&self, item: &WorkItem<'_, C>, own: impl FnOnce() -> R) -> Option<R> {
        // The item outlives this, which outlives every visit: `Joined::item` relies on that.
        let published: Published<'_, C> = self.dispatch.open_slot(item, (u32::MAX, NodeMask::EMPTY))?;
        for cpu in self.cpus.iter() {
            let worker = self.dispatch.workers.of(cpu);
            worker.assign(Some(published.slot.assignment()));
            // Releases the assignment.
            worker.notify();
        }
        Some(own())
    }
}

impl<C: Cpu> Drop for Reserved<'_, C> {
    fn drop(&mut self) {
        let count = self.cpus.count();
        self.dispatch.limit.release(count);
        self.cpus.iter().for_each(|cpu| self.dispatch.workers.of(cpu).release());
        self.dispatch.end_work(count);
    }
}

impl<C: Cpu> fmt::Debug for Reserved<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reserved {:?}", self.cpus)
    }
}
