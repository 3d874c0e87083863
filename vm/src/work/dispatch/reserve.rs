//! Reserved workers: the helpers of certain CPUs, which visit one caller's work whenever it notifies them.

use super::Dispatch;
use super::item::Work;
use super::work_slot::Helpers;
use super::worker_slot::RESERVED;
use crate::machine::Cpu;
use crate::sync::atomic::Ordering::*;
use crate::units::{CpuId, CpuMask, NodeMask};
use crate::work::Spent;

/// Reserved workers; released when dropped.
#[must_use = "the workers are released when this is dropped"]
pub struct Reserved<'d, C: Cpu> {
    dispatch: &'d Dispatch<'d, C>,
    cpus: CpuMask,
}

impl<C: Cpu> Dispatch<'_, C> {
    /// Reserves the idle helpers of `cpus`, as many as the limit allows.
    pub fn reserve(&self, cpus: &CpuMask) -> Reserved<'_, C> {
        let granted = self.begin_work(cpus.count());
        let mut reserved = Reserved { dispatch: self, cpus: CpuMask::EMPTY };
        let workers = cpus.iter().filter(|cpu| cpu.0 < self.nr_cpus());
        let idle = workers.filter(|&cpu| self.workers.of(cpu).take(RESERVED));
        idle.take(granted as usize).for_each(|cpu| {
            reserved.cpus.insert(cpu);
            self.parked.remove(cpu);
        });
        let count = reserved.cpus.count();
        self.unreserved.fetch_sub(count, Relaxed);
        self.end_work(granted - count);
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

    /// Publishes `work` for these workers while `own` runs: each visits it when it is notified. Otherwise as
    /// [`Dispatch::publish`]; `None` where no work slot is free.
    pub fn publish<R>(&self, work: &dyn Work<C>, own: impl FnOnce() -> R) -> Option<(R, Spent)> {
        let helpers = Helpers { max: u32::MAX, nodes: NodeMask::EMPTY, reserved: self.cpus };
        let (result, spent) = self.dispatch.publish_for(work, helpers, |slot| {
            for worker in self.cpus.iter().map(|cpu| self.dispatch.workers.of(cpu)) {
                worker.assigned.store(slot?, Relaxed);
                // Releases the assignment.
                worker.notify();
            }
            slot.map(|_| own())
        });
        result.map(|result| (result, spent))
    }
}

impl<C: Cpu> Drop for Reserved<'_, C> {
    fn drop(&mut self) {
        let count = self.cpus.count();
        self.dispatch.unreserved.fetch_add(count, Relaxed);
        self.cpus.iter().for_each(|cpu| self.dispatch.workers.of(cpu).release());
        self.dispatch.end_work(count);
    }
}
