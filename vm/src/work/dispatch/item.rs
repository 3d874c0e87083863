//! Work items, and the visits of helpers to them.

use super::work_slot::WorkSlot;
use super::worker_slot::WorkerSlot;
use crate::machine::Cpu;
use crate::units::{CpuId, NodeId};

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
    worker: &'w WorkerSlot<C>,
}

impl<C: Cpu> Visitor<'_, C> {
    /// Whether the helper was dismissed, and has to return soon.
    pub fn must_leave(&self) -> bool {
        self.worker.must_leave()
    }
}

/// Work to be published. It stays in place while it is published.
pub(super) struct Item<'a, C: Cpu> {
    work: &'a (dyn Work<C> + 'a),
    /// Lock ranks that the caller holds.
    held: u64,
}

impl<'a, C: Cpu> Item<'a, C> {
    /// Work of the current thread.
    pub(super) fn new(work: &'a (dyn Work<C> + 'a)) -> Self {
        Self { work, held: C::with_context(|context| context.held()) }
    }
}

/// A visit to a slot's item; ends when dropped, also by unwinding. For the lock order, the helper holds
/// meanwhile what its caller holds, and its time is charged to the item.
pub(super) struct Visit<'s, C: Cpu> {
    slot: &'s WorkSlot<C>,
    item: &'s Item<'s, C>,
    began_ns: u64,
    own_ranks: u64,
    is_drained: bool,
}

impl<'s, C: Cpu> Visit<'s, C> {
    pub(super) fn begin(slot: &'s WorkSlot<C>, item: &'s Item<'s, C>) -> Self {
        let own_ranks = C::with_context(|context| context.inherit_held(item.held));
        Self { slot, item, began_ns: C::now_ns(), own_ranks, is_drained: false }
    }

    /// Does a part of the work as the helper of `cpu`.
    pub(super) fn work(&self, cpu: CpuId, worker: &WorkerSlot<C>) -> Progress {
        self.item.work.visit(&Visitor { cpu, node: worker.node, began_ns: self.began_ns, worker })
    }

    /// Tells the work that the reserved worker of `cpu` leaves.
    pub(super) fn detach(&self, cpu: CpuId) {
        self.item.work.detach(cpu);
    }

    /// Notes that all work of the item has begun: no other helper joins.
    pub(super) fn mark_drained(&mut self) {
        self.is_drained = true;
    }
}

impl<C: Cpu> Drop for Visit<'_, C> {
    fn drop(&mut self) {
        let helped_ns = C::with_context(|context| {
            context.inherit_held(self.own_ranks);
            context.take_helper_ns()
        });
        let took_ns = C::now_ns().saturating_sub(self.began_ns).saturating_add(helped_ns);
        self.slot.leave(took_ns, self.is_drained);
    }
}

impl<C: Cpu> core::fmt::Debug for Visitor<'_, C> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Visitor from {:?}", self.cpu)
    }
}
