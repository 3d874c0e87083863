//! How helpers find work: work items are published in work slots, and idle helpers join them.
//!
//! A *work item* lies on its caller's stack. The caller publishes it in a *work slot*, which lies in the
//! pool's own memory, does its own part, closes the slot, and returns once every visit has ended. A helper
//! uses the item only during a *visit*, which it begins by joining the slot. A caller never waits for a
//! helper that has not joined.
//!
//! An item must not wait for helpers that sleep: both sides store, then load, with a full fence in between,
//! so that at least one of them sees the other's store.
//!
//! ```text
//!   caller   publish the item    fence    any worker parked?     then notify two
//!   helper   mark as parked      fence    any item published?    then do not sleep
//! ```
//!
//! A helper that joins notifies two more while there is room, so the number of helpers doubles with each
//! step. A worker that was notified and cannot join passes the notification on
//! ([`Dispatch::notify_for_published`]).

mod helper;
mod item;
#[cfg(all(test, loom))]
#[path = "../tests/loom_dispatch.rs"]
mod loom_tests;
mod parked;
mod reserve;
mod work_slot;
mod worker_slot;

pub use item::{Progress, Visit, Work};
pub use work_slot::Helpers;

use super::Spent;
use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU32, Ordering::*, fence};
use crate::sync::{Carve, PerCpu};
use crate::units::{CpuId, MAX_CPUS, NodeId, NodeMask};
use item::Item;
use parked::Parked;
use work_slot::{NR_SLOTS, NodeSlots, WorkSlot};
use worker_slot::WorkerSlot;

/// Workers that a caller, or a helper that joins, notifies at once.
const FANOUT: usize = if cfg!(loom) { 1 } else { 2 };

/// Number of polls before a helper without work parks, and before a caller sleeps that waits for its helpers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollLimit(pub u32);

impl PollLimit {
    /// About ten microseconds: more than going to sleep and being woken takes.
    pub const SHORT: Self = Self(1000);
    /// Sleep at once.
    pub const NONE: Self = Self(0);
}

/// The work slots and worker slots of a pool.
pub struct Dispatch<'m, C: Cpu> {
    workers: PerCpu<'m, WorkerSlot<C>, C>,
    /// Work slots of each node, indexed by the number of the node as a `CpuId`.
    nodes: PerCpu<'m, NodeSlots<C>, C>,
    parked: Parked<C>,
    // Counts and limits. Relaxed: they order nothing.
    max_helpers: AtomicU32<C>,
    /// Helpers in visits, and reserved ones.
    at_work: AtomicU32<C>,
    /// Helpers that are present, less the reserved ones. Below 0 for a moment where a reserved one leaves.
    unreserved: AtomicU32<C>,
    poll_limit: AtomicU32<C>,
}

impl<'m, C: Cpu> Dispatch<'m, C> {
    /// A dispatch without workers: nothing can be published.
    pub fn empty() -> Self {
        Self::new(PerCpu::none(), PerCpu::none())
    }

    /// Slots for the workers of all CPUs and the work of all nodes. `None` if the memory does not suffice, or
    /// there are more than [`MAX_CPUS`] CPUs.
    pub fn carve(from: &mut impl Carve<'m>, nr_cpus: u32, node_of: impl Fn(CpuId) -> NodeId) -> Option<Self> {
        if nr_cpus as usize > MAX_CPUS {
            return None;
        }
        let workers = PerCpu::carve(from, nr_cpus, |cpu| WorkerSlot::new(cpu, node_of(cpu)))?;
        let last_node = workers.iter().map(|(_, worker)| worker.node.0).max().unwrap_or(0);
        let nodes = PerCpu::carve(from, last_node.checked_add(1)?, |_| NodeSlots::new())?;
        Some(Self::new(workers, nodes))
    }

    const fn new(workers: PerCpu<'m, WorkerSlot<C>, C>, nodes: PerCpu<'m, NodeSlots<C>, C>) -> Self {
        let (max_helpers, poll_limit) = (AtomicU32::new(u32::MAX), AtomicU32::new(PollLimit::SHORT.0));
        let (at_work, unreserved) = (AtomicU32::new(0), AtomicU32::new(0));
        Self { workers, nodes, parked: Parked::new(), max_helpers, at_work, unreserved, poll_limit }
    }

    /// Number of worker slots.
    pub fn nr_cpus(&self) -> u32 {
        self.workers.nr_cpus()
    }

    /// Number of nodes; every CPU's node is below it.
    pub fn nr_nodes(&self) -> u32 {
        self.nodes.nr_cpus()
    }

    /// The node of `cpu`; node 0 where it has no worker slot.
    pub fn node_of(&self, cpu: CpuId) -> NodeId {
        if cpu.0 < self.nr_cpus() { self.workers.of(cpu).node } else { NodeId(0) }
    }

    /// Sets how long helpers and callers poll before they sleep.
    pub fn set_poll_limit(&self, limit: PollLimit) {
        self.poll_limit.store(limit.0, Relaxed);
    }

    /// Sets how many helpers may be at work at once; those at work go on.
    pub fn set_max_helpers(&self, max: u32) {
        self.max_helpers.store(max, Relaxed);
        self.notify_for_published(C::id());
    }

    /// Number of helpers that could join an item published now; may be stale.
    pub fn nr_available_racy(&self) -> u32 {
        let unreserved = self.unreserved.load(Relaxed).cast_signed().max(0);
        self.max_helpers.load(Relaxed).min(unreserved.cast_unsigned())
    }

    /// Whether one more helper may be at work; may be stale.
    fn has_room_racy(&self) -> bool {
        self.at_work.load(Relaxed) < self.max_helpers.load(Relaxed)
    }

    /// Counts an idle helper as at work, BUSY or RESERVED. False where too many helpers are at work, or this
    /// one is not idle, or has to leave.
    fn begin_work(&self, worker: &WorkerSlot<C>, state: u32) -> bool {
        let max = self.max_helpers.load(Relaxed);
        if self.at_work.update(Relaxed, Relaxed, |count| (count < max).then_some(count + 1)).is_err() {
            return false;
        }
        let begins = worker.take(state);
        if !begins {
            self.end_work();
        }
        begins
    }

    /// A helper is no longer at work. Where the limit was reached, others may have parked.
    fn end_work(&self) {
        let was_full = self.at_work.fetch_sub(1, Relaxed) >= self.max_helpers.load(Relaxed);
        if was_full && !mutant!("dispatch.room-not-announced") {
            self.notify_for_published(C::id());
        }
    }

    /// Whether the worker slot of `cpu` has a helper that stays; may be stale.
    pub fn has_helper_racy(&self, cpu: CpuId) -> bool {
        cpu.0 < self.nr_cpus() && self.workers.of(cpu).has_helper_racy()
    }

    /// Dismisses the helper of `cpu`, and waits until it has left: its visit ends with the chunk under way.
    /// May sleep.
    pub fn dismiss(&self, cpu: CpuId) {
        if cpu.0 < self.nr_cpus() {
            self.workers.of(cpu).dismiss(false);
            self.workers.of(cpu).wait_until_gone();
        }
    }

    /// Dismisses all helpers, and accepts no others. May sleep.
    pub fn close(&self) {
        self.workers.iter().for_each(|(_, worker)| worker.dismiss(true));
        self.workers.iter().for_each(|(_, worker)| worker.wait_until_gone());
    }

    /// Publishes `work` for `helpers` while `own` runs. When this returns, or unwinds, no helper visits the
    /// work or will, and their time is charged to this thread. `None`, without `own`, where no work slot is
    /// free.
    ///
    /// May sleep, until the visits under way have ended.
    pub fn publish<R>(
        &self,
        work: &dyn Work<C>,
        helpers: Helpers,
        own: impl FnOnce() -> R,
    ) -> Option<(R, Spent)> {
        let item = Item::new(work);
        let mut published = Published { dispatch: self, slot: Some(self.take_slot()?) };
        let number = published.slot?;
        // SAFETY: the item is dropped behind `published`, which closes the slot, also in unwinding.
        unsafe { self.slot(number).open(&item, helpers) };
        for worker in helpers.reserved.iter().map(|cpu| self.workers.of(cpu)) {
            worker.assigned.store(number, Relaxed);
            // Releases the assignment.
            worker.notify();
        }
        // Pairs with the fence of `Helper::park`: either this sees the worker as parked, or that sees the
        // item.
        if !mutant!("dispatch.publish-fence-skipped") {
            fence::<C>(SeqCst);
        }
        self.notify_parked(C::id(), helpers.nodes);
        let result = own();
        Some((result, published.close()))
    }

    /// Takes a free slot of this CPU's node, or else of another one.
    fn take_slot(&self) -> Option<u32> {
        let mut nodes = self.nodes_from(self.node_of(C::id()));
        nodes.find_map(|node| Some(node * NR_SLOTS + self.nodes.of(CpuId(node)).take()?))
    }

    /// The numbers of all nodes, from `node` on.
    fn nodes_from(&self, node: NodeId) -> impl Iterator<Item = u32> {
        (node.0..self.nr_nodes()).chain(0..node.0.min(self.nr_nodes()))
    }

    /// A work slot by its number in the pool.
    fn slot(&self, number: u32) -> &WorkSlot<C> {
        self.nodes.of(CpuId(number / NR_SLOTS)).slot(number)
    }

    /// Work slots in use, from those of `node` on.
    fn slots_in_use(&self, node: NodeId) -> impl Iterator<Item = &WorkSlot<C>> {
        self.nodes_from(node).flat_map(|node| self.nodes.of(CpuId(node)).in_use())
    }

    /// Notifies parked workers of `nodes`, [`FANOUT`] at most, from the CPU behind `me` on.
    fn notify_parked(&self, me: CpuId, nodes: NodeMask) {
        let is_notified = |&cpu: &CpuId| {
            let worker = self.workers.of(cpu);
            nodes.contains(worker.node) && self.parked.remove(cpu) && worker.notify_idle()
        };
        self.parked.iter_from(me, self.nr_cpus()).filter(is_notified).take(FANOUT).for_each(drop);
    }

    /// Notifies parked workers for each published item that has room: where a worker joins, where one that
    /// was notified may not be able to, and where room is made.
    fn notify_for_published(&self, me: CpuId) {
        // Pairs with the fence of `Helper::park`, where room was made.
        fence::<C>(SeqCst);
        let nodes = self.slots_in_use(NodeId(0)).map(WorkSlot::joinable_from_racy);
        nodes.filter(|nodes| *nodes != NodeMask::EMPTY).for_each(|nodes| self.notify_parked(me, nodes));
    }
}

/// A slot that this thread has taken; closed and freed when dropped.
struct Published<'d, C: Cpu> {
    dispatch: &'d Dispatch<'d, C>,
    slot: Option<u32>,
}

impl<C: Cpu> Published<'_, C> {
    fn close(&mut self) -> Spent {
        let Some(number) = self.slot.take() else { return Spent::default() };
        let spent = self.dispatch.slot(number).close(self.dispatch.poll_limit.load(Relaxed));
        self.dispatch.nodes.of(CpuId(number / NR_SLOTS)).free(number % NR_SLOTS);
        C::with_context(|context| context.add_helper_ns(spent.helper_ns));
        spent
    }
}

impl<C: Cpu> Drop for Published<'_, C> {
    fn drop(&mut self) {
        self.close();
    }
}
