//! Helpers that are reserved for one caller's work, for ordered queues: the caller says which of them visits,
//! and when.

use super::Dispatch;
use super::worker_slot::RESERVED;
use crate::machine::Cpu;
use crate::sync::atomic::Ordering::*;
use crate::units::{CpuId, CpuMask};

/// Reserved workers, which visit one caller's work whenever it notifies them, and are expedited: a visit that
/// has not begun is waited for too. Released when dropped.
#[must_use = "the workers are released when this is dropped"]
pub struct Reserved<'d, C: Cpu> {
    dispatch: &'d Dispatch<'d, C>,
    pub cpus: CpuMask<C::CpuWords>,
}

impl<C: Cpu> Dispatch<'_, C> {
    /// Reserves the idle helpers of `cpus`, as many as the limit allows.
    pub fn reserve(&self, cpus: &CpuMask) -> Reserved<'_, C> {
        let mut reserved = Reserved { dispatch: self, cpus: CpuMask::new() };
        let workers = cpus.iter().filter(|cpu| cpu.0 < self.nr_cpus());
        for cpu in workers.filter(|&cpu| self.begin_work(self.workers.of(cpu), RESERVED)) {
            reserved.cpus.insert(cpu);
            if !mutant!("dispatch.reserved-not-expedited") {
                C::expedite_helper(cpu);
            }
            self.unreserved.fetch_sub(1, Relaxed);
            self.parked.remove(cpu);
        }
        // One of them may have been notified for an item that is published.
        self.notify_for_published(C::id());
        reserved
    }

    /// Notifies the worker of `cpu`: a reserved one visits its item again, another looks for items. False
    /// where the CPU has no helper.
    pub fn notify(&self, cpu: CpuId) -> bool {
        self.workers.of(cpu).notify()
    }
}

impl<C: Cpu> Drop for Reserved<'_, C> {
    fn drop(&mut self) {
        for cpu in self.cpus.iter() {
            C::end_expedite(cpu);
            self.dispatch.unreserved.fetch_add(1, Relaxed);
            let worker = self.dispatch.workers.of(cpu);
            worker.release();
            self.dispatch.end_work(worker);
        }
    }
}
