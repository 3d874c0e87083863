//! Work that is published, and the visits of helpers to it.

use super::work_slot::WorkSlot;
use super::worker_slot::WorkerSlot;
use crate::machine::Cpu;
use crate::units::{CpuId, NodeId};

/// Work that helpers may visit.
pub trait Work<C: Cpu>: Sync {
    /// Does a part of the work, as a helper. Returns after a bounded time, so that other threads get the CPU.
    fn visit(&self, visit: &Visit<'_, C>) -> Progress;

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

/// Work of a caller, on its stack. It stays in place while it is published.
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

/// A helper's visit to a slot's item; ends when dropped, also by unwinding. For the lock order, the helper
/// holds meanwhile what its caller holds, and its time is charged to the caller.
pub struct Visit<'s, C: Cpu> {
    slot: &'s WorkSlot<C>,
    item: &'s Item<'s, C>,
    /// The worker slot of the helper.
    pub(super) worker: &'s WorkerSlot<C>,
    /// The time at which the visit began.
    pub began_ns: u64,
    own_ranks: u64,
    /// Set where all work of the item has begun: no other helper joins.
    pub(super) is_drained: bool,
}

impl<'s, C: Cpu> Visit<'s, C> {
    pub(super) fn begin(slot: &'s WorkSlot<C>, item: &'s Item<'s, C>, worker: &'s WorkerSlot<C>) -> Self {
        let own_ranks = C::with_context(|context| context.inherit_held(item.held));
        Self { slot, item, worker, began_ns: C::now_ns(), own_ranks, is_drained: false }
    }

    /// The work that is visited.
    pub(super) fn work(&self) -> &dyn Work<C> {
        self.item.work
    }

    /// The CPU of the helper.
    pub fn cpu(&self) -> CpuId {
        self.worker.cpu
    }

    /// The node of that CPU.
    pub fn node(&self) -> NodeId {
        self.worker.node
    }

    /// Whether the helper was dismissed, and has to return soon.
    pub fn must_leave(&self) -> bool {
        self.worker.must_leave()
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
