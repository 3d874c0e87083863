//! A work item: work on its caller's stack, with the account of its helpers.

use super::cpu_mask::AtomicCpuMask;
use super::worker_slot::WorkerSlot;
use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::units::{CpuId, NodeId};
use core::fmt;

/// Work that helpers may visit.
pub trait Work<C: Cpu>: Sync {
    /// Does a part of the work, as a helper. Returns after a bounded time, so that other threads get the CPU.
    fn visit(&self, visitor: &Visitor<'_, C>) -> Progress;

    /// Called when the reserved worker of `cpu` leaves, dismissed or by a panic.
    fn detach(&self, cpu: CpuId) {
        let _ = cpu;
    }
}

/// How a visit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is more to do: the helper visits again after other threads had the CPU.
    Paused,
    /// The helper finds no more work to begin.
    Exhausted,
}

/// The helper that visits.
pub struct Visitor<'w, C: Cpu> {
    /// Its CPU.
    pub cpu: CpuId,
    /// The node of that CPU.
    pub node: NodeId,
    /// The time at which the visit began.
    pub began_ns: u64,
    pub(super) worker: &'w WorkerSlot<C>,
}

impl<C: Cpu> Visitor<'_, C> {
    /// Whether the helper was dismissed, and has to return soon.
    pub fn must_leave(&self) -> bool {
        self.worker.must_leave()
    }
}

/// Work to be published, and the account of its helpers. It stays in place while it is published.
pub struct WorkItem<'a, C: Cpu> {
    work: &'a (dyn Work<C> + 'a),
    /// Lock ranks that the caller holds.
    held: u64,
    /// Nanoseconds of all visits that have ended. Relaxed, as `visitors`: ordered by the slot's word.
    helper_ns: AtomicU64<C>,
    /// CPUs whose helpers have visited.
    visitors: AtomicCpuMask<C>,
}

impl<'a, C: Cpu> WorkItem<'a, C> {
    /// An item for helpers of the current thread.
    pub fn new(work: &'a (dyn Work<C> + 'a)) -> Self {
        let held = C::with_context(|context| context.held());
        Self { work, held, helper_ns: AtomicU64::new(0), visitors: AtomicCpuMask::new() }
    }

    /// Nanoseconds that helpers worked, including the helpers of their own jobs. No visit is under way.
    pub fn helper_ns(&self) -> u64 {
        self.helper_ns.load(Relaxed)
    }

    /// Number of helpers that visited. No visit is under way.
    pub fn nr_helpers(&self) -> u32 {
        self.visitors.count_racy()
    }

    /// Visits the item as the helper of `worker`.
    pub(super) fn visit(&self, cpu: CpuId, worker: &WorkerSlot<C>) -> Progress {
        self.visitors.insert(cpu);
        let accounting = self.work_for_caller();
        let visitor = Visitor { cpu, node: worker.node, began_ns: accounting.began_ns, worker };
        self.work.visit(&visitor)
    }

    /// Tells the work that the reserved worker of `cpu` leaves.
    pub(super) fn detach(&self, cpu: CpuId) {
        let _accounting = self.work_for_caller();
        self.work.detach(cpu);
    }

    /// For the lock order, the current thread holds the caller's ranks until the result is dropped, which
    /// charges the time to the item.
    fn work_for_caller(&self) -> Accounting<'_, 'a, C> {
        let own_ranks = C::with_context(|context| context.inherit_held(self.held));
        Accounting { item: self, began_ns: C::now_ns(), own_ranks }
    }
}

/// A helper that works for a caller; ends when dropped, also by unwinding.
struct Accounting<'i, 'a, C: Cpu> {
    item: &'i WorkItem<'a, C>,
    began_ns: u64,
    own_ranks: u64,
}

impl<C: Cpu> Drop for Accounting<'_, '_, C> {
    fn drop(&mut self) {
        let helped_ns = C::with_context(|context| {
            context.inherit_held(self.own_ranks);
            context.take_helper_ns()
        });
        let took_ns = C::now_ns().saturating_sub(self.began_ns).saturating_add(helped_ns);
        self.item.helper_ns.fetch_add(took_ns, Relaxed);
    }
}

impl<C: Cpu> fmt::Debug for Visitor<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Visitor from {:?}", self.cpu)
    }
}

impl<C: Cpu> fmt::Debug for WorkItem<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WorkItem")
    }
}
