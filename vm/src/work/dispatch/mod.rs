//! How helpers find work: work items are published in work slots, and idle helpers join them.
//!
//! A *work item* lies on its caller's stack. The caller publishes it in a *work slot* of the pool, does its
//! own part, closes the slot, and returns once every visit has ended. A helper uses the item only during a
//! *visit*, which it begins by joining the slot. An item must not wait for helpers that sleep: both sides
//! store, then load, with a full fence in between, so that at least one sees the other's store.
//!
//! ```text
//!   caller   publish the item    fence    any worker parked?     then notify two
//!   helper   mark as parked      fence    any item published?    then do not sleep
//! ```
//!
//! A helper that joins notifies two more while there is room; one that cannot passes the notification on.

mod expedited;
mod helper;
#[cfg(all(test, loom))]
#[path = "../tests/loom_dispatch.rs"]
mod loom_tests;
mod reserved;
#[cfg(all(test, not(loom)))]
#[path = "../tests/dispatch.rs"]
mod tests;
mod work_slot;
mod worker_slot;

pub use work_slot::{Helpers, Visit, VisitEnd, Work};

use super::Spent;
use super::broken_off::Note;
use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU32, Ordering::*, fence};
use crate::sync::{AtomicCpuMask, Carve, PerCpu};
use crate::units::{CpuId, CpuWords, NodeId, NodeMask};
use core::cell::Cell;
use expedited::Expedited;
use work_slot::{Item, NR_SLOTS, NodeSlots, WorkSlot};
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

/// A limit of the helpers at work at once, and their number: in visits, or reserved. Relaxed: it orders
/// nothing.
struct Limit<C: Cpu> {
    max: AtomicU32<C>,
    at_work: AtomicU32<C>,
}

impl<C: Cpu> Limit<C> {
    const fn new() -> Self {
        Self { max: AtomicU32::new(u32::MAX), at_work: AtomicU32::new(0) }
    }

    fn has_room_racy(&self) -> bool {
        self.at_work.load(Relaxed) < self.max.load(Relaxed)
    }

    /// Counts one more; false where the limit is reached.
    fn begin(&self) -> bool {
        let max = self.max.load(Relaxed);
        self.at_work.update(Relaxed, Relaxed, |count| (count < max).then_some(count + 1)).is_ok()
    }

    /// Counts one less. Whether the limit was reached.
    fn end(&self) -> bool {
        self.at_work.fetch_sub(1, Relaxed) >= self.max.load(Relaxed)
    }
}

/// The work slots and worker slots of a pool.
pub struct Dispatch<'m, C: Cpu> {
    workers: PerCpu<'m, WorkerSlot<C>, C>,
    /// Work slots of each node, indexed by the number of the node as a `CpuId`.
    nodes: PerCpu<'m, NodeSlots<C>, C>,
    /// The parked workers.
    parked: AtomicCpuMask<C>,
    /// Of all helpers; each node has a limit of its own.
    limit: Limit<C>,
    // Relaxed: they order nothing.
    /// Helpers that are present, less the reserved ones. Below 0 for a moment where a reserved one leaves.
    unreserved: AtomicU32<C>,
    poll_limit: AtomicU32<C>,
}

impl<'m, C: Cpu> Dispatch<'m, C> {
    /// A dispatch without workers: nothing can be published.
    pub fn empty() -> Self {
        Self::new(PerCpu::none(), PerCpu::none())
    }

    /// Slots for all CPUs and nodes. `None` if the memory does not suffice, or for more CPUs than
    /// [`Cpu::CpuWords`] can name.
    pub fn carve(from: &mut impl Carve<'m>, nr_cpus: u32, node_of: impl Fn(CpuId) -> NodeId) -> Option<Self> {
        if nr_cpus > C::CpuWords::MAX_CPUS {
            return None;
        }
        let workers = PerCpu::carve(from, nr_cpus, |cpu| WorkerSlot::new(cpu, node_of(cpu)))?;
        let last_node = workers.iter().map(|(_, worker)| worker.node.0).max().unwrap_or(0);
        let nodes = PerCpu::carve(from, last_node.checked_add(1)?, |_| NodeSlots::new())?;
        Some(Self::new(workers, nodes))
    }

    fn new(workers: PerCpu<'m, WorkerSlot<C>, C>, nodes: PerCpu<'m, NodeSlots<C>, C>) -> Self {
        let (unreserved, poll_limit) = (AtomicU32::new(0), AtomicU32::new(PollLimit::SHORT.0));
        Self { workers, nodes, parked: AtomicCpuMask::new(), limit: Limit::new(), unreserved, poll_limit }
    }

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

    pub fn set_poll_limit(&self, limit: PollLimit) {
        self.poll_limit.store(limit.0, Relaxed);
    }

    pub fn set_max_helpers(&self, max: u32) {
        self.limit.max.store(max, Relaxed);
        self.notify_for_published(C::id());
    }

    pub fn set_max_helpers_on(&self, node: NodeId, max: u32) {
        if node.0 < self.nr_nodes() {
            self.limit_on(node).max.store(max, Relaxed);
            self.notify_for_published(C::id());
        }
    }

    fn limit_on(&self, node: NodeId) -> &Limit<C> {
        &self.nodes.of(CpuId(node.0)).limit
    }

    /// Number of helpers that could join an item published now, idle or, once their visit ends, at work in
    /// another one; may be stale.
    pub fn nr_available_racy(&self) -> u32 {
        let unreserved = self.unreserved.load(Relaxed).cast_signed().max(0);
        self.limit.max.load(Relaxed).min(unreserved.cast_unsigned())
    }

    /// Whether one more helper of a node may be at work; may be stale.
    fn has_room_racy(&self, node: NodeId) -> bool {
        self.limit.has_room_racy() && self.limit_on(node).has_room_racy()
    }

    /// Counts an idle helper as at work, BUSY or RESERVED. False where it is not idle, or a limit reached.
    fn begin_work(&self, worker: &WorkerSlot<C>, state: u32) -> bool {
        let node = self.limit_on(worker.node);
        if !node.begin() {
            return false;
        }
        if !self.limit.begin() {
            self.announce_room(node.end());
            return false;
        }
        let begins = worker.take(state);
        if !begins {
            self.end_work(worker);
        }
        begins
    }

    /// A helper is no longer at work.
    fn end_work(&self, worker: &WorkerSlot<C>) {
        self.announce_room(self.limit_on(worker.node).end() | self.limit.end());
    }

    /// Where a limit was reached, and is no longer, others may have parked.
    fn announce_room(&self, was_full: bool) {
        if was_full && !mutant!("dispatch.room-not-announced") {
            self.notify_for_published(C::id());
        }
    }

    pub fn has_helper_racy(&self, cpu: CpuId) -> bool {
        cpu.0 < self.nr_cpus() && self.workers.of(cpu).has_helper_racy()
    }

    /// Whether a helper waits or works on one of the nodes; may be stale.
    pub fn has_helper_on_racy(&self, nodes: NodeMask) -> bool {
        self.workers.iter().any(|(_, worker)| nodes.contains(worker.node) && worker.has_helper_racy())
    }

    /// Number of polls for which a caller leaves its job to helpers that have not begun: they may have to be
    /// woken first.
    pub fn patience(&self) -> u32 {
        self.poll_limit.load(Relaxed).saturating_mul(100)
    }

    /// Dismisses the helper of `cpu`, and waits until it has left. May sleep.
    pub fn dismiss(&self, cpu: CpuId) {
        if cpu.0 < self.nr_cpus() {
            self.workers.of(cpu).dismiss(false);
            self.wait_until_gone(self.workers.of(cpu));
        }
    }

    /// Dismisses all helpers, and accepts no others. May sleep.
    pub fn close(&self) {
        self.workers.iter().for_each(|(_, worker)| worker.dismiss(true));
        self.workers.iter().for_each(|(_, worker)| self.wait_until_gone(worker));
    }

    fn wait_until_gone(&self, worker: &WorkerSlot<C>) {
        let is_expedited = !mutant!("dispatch.dismissal-not-expedited");
        let _expedited = is_expedited.then(|| Expedited::<C>::new(worker.cpu));
        worker.wait_until_gone();
    }

    /// Publishes `work` while `own` runs. When this returns, or unwinds, no helper visits the work or will,
    /// and their time is charged to this thread. `None`, without `own`, where no work slot is free. Waits for
    /// the visits under way, and may sleep.
    pub fn publish<R>(
        &self,
        work: &dyn Work<C>,
        to: Helpers<'_>,
        own: impl FnOnce() -> R,
    ) -> Option<(R, Spent)> {
        let item = Item { work, held: C::with_context(|context| context.held()) };
        let mut nodes = self.nodes_from(self.node_of(C::id()));
        let number = nodes.find_map(|node| Some(node * NR_SLOTS + self.nodes.of(CpuId(node)).take()?))?;
        let spent = Cell::new(Spent::default());
        let published = Published { dispatch: self, number, spent: &spent };
        // SAFETY: (1) `item` is declared before `published`, so it goes after it, in unwinding too; and
        // `published` does not go before `close` has returned, else nothing goes on. (2) The slot was taken
        // above, for `published` alone, which frees it after `close`.
        unsafe { self.slot(number).open(&item, to) };
        if to.nodes.is_none() {
            for worker in to.cpus.iter().map(|cpu| self.workers.of(cpu)) {
                worker.assigned.store(number, Relaxed);
                worker.notify(); // Releases the assignment.
            }
        }
        // Pairs with the fence of `Helper::park`: either this sees it as parked, or that sees the item.
        if !mutant!("dispatch.publish-fence-skipped") {
            fence::<C>(SeqCst);
        }
        self.notify_parked(C::id(), self.slot(number));
        let result = own();
        drop(published);
        Some((result, spent.get()))
    }

    /// The note of the worker of `cpu`.
    pub(in crate::work) fn note_of(&self, cpu: CpuId) -> &Note<C> {
        &self.workers.of(cpu).note
    }

    /// Number of notes that are not free; may be stale.
    #[cfg(all(test, not(loom)))]
    pub(in crate::work) fn noted_racy(&self) -> usize {
        self.workers.iter().filter(|(_, worker)| !worker.note.is_free()).count()
    }

    /// Visits under way.
    #[cfg(all(test, not(loom)))]
    pub(in crate::work) fn nr_visits(&self) -> u32 {
        self.slots_in_use(NodeId(0)).map(WorkSlot::nr_visits).sum()
    }

    fn nodes_from(&self, node: NodeId) -> impl Iterator<Item = u32> {
        (node.0..self.nr_nodes()).chain(0..node.0.min(self.nr_nodes()))
    }

    fn slot(&self, number: u32) -> &WorkSlot<C> {
        self.nodes.of(CpuId(number / NR_SLOTS)).slot(number)
    }

    /// Work slots in use, from those of `node` on.
    fn slots_in_use(&self, node: NodeId) -> impl Iterator<Item = &WorkSlot<C>> {
        self.nodes_from(node).flat_map(|node| self.nodes.of(CpuId(node)).in_use())
    }

    /// Notifies parked workers that may join the item of `slot`, [`FANOUT`] at most, from the CPU behind `me`
    /// on.
    fn notify_parked(&self, me: CpuId, slot: &WorkSlot<C>) {
        let nodes = slot.joinable_from_racy();
        if nodes == NodeMask::EMPTY {
            return;
        }
        let is_notified = |&cpu: &CpuId| {
            let worker = self.workers.of(cpu);
            let is_wanted = nodes.contains(worker.node) && slot.is_for_racy(cpu);
            let is_wanted = is_wanted && self.limit_on(worker.node).has_room_racy() && worker.note.is_free();
            is_wanted && self.parked.remove(cpu) && worker.notify_idle()
        };
        self.parked.iter_after(me).filter(is_notified).take(FANOUT).for_each(drop);
    }

    /// Notifies parked workers for each published item that has room.
    fn notify_for_published(&self, me: CpuId) {
        // Pairs with the fence of `Helper::park`, where room was made.
        if !mutant!("dispatch.room-fence-skipped") {
            fence::<C>(SeqCst);
        }
        self.slots_in_use(NodeId(0)).for_each(|slot| self.notify_parked(me, slot));
    }
}

/// A slot that this thread has taken; closed and freed when dropped.
struct Published<'d, C: Cpu> {
    dispatch: &'d Dispatch<'d, C>,
    number: u32,
    /// What the visits have cost, once the slot is closed.
    spent: &'d Cell<Spent>,
}

impl<C: Cpu> Drop for Published<'_, C> {
    fn drop(&mut self) {
        let Self { dispatch, number, .. } = *self;
        let closing = Closing;
        let spent = dispatch.slot(number).close(dispatch.poll_limit.load(Relaxed));
        core::mem::forget(closing);
        dispatch.nodes.of(CpuId(number / NR_SLOTS)).free(number % NR_SLOTS);
        C::with_context(|context| context.add_helper_ns(spent.helper_ns));
        self.spent.set(spent);
    }
}

/// Forgotten once a slot is closed. If closing unwinds, which would end the item under its visitors, this is
/// dropped: the second panic ends the program.
struct Closing;

impl Drop for Closing {
    fn drop(&mut self) {
        panic!("a work slot could not be closed");
    }
}
