//! How helpers find work: work items are published in work slots, and idle helpers join them.
//!
//! A *work item* lies on its caller's stack, so nothing is allocated. The caller publishes it in a *work
//! slot*, which lies in the pool's own memory, does its own part, closes the slot, and returns once every
//! visit to the item has ended. A helper follows the slot's pointer only during a *visit*, which it begins by
//! joining the slot. A caller never waits for a helper that has not joined.
//!
//! ```text
//!   caller   publish, notify    its own part ...............   close   visits? wait   return
//!               \         \                                      |              /
//!   helper       \         +--> wakes      join --- visit --- leave     ....  leave
//!                 +-> polls -----------------^
//! ```
//!
//! A helper has a *worker slot*: its state, and a word on which it sleeps. An idle helper polls the work
//! slots, and parks after some time without work. An ordered queue, which needs the helpers of certain CPUs,
//! *reserves* idle workers: they poll no longer, but visit the queue's item whenever they are notified. Both
//! kinds of work are joined, visited and left in the same way.
//!
//! # Memory order
//!
//! | word | transitions | order |
//! |---|---|---|
//! | work slot | publish, join | publish releases the item to the join |
//! | | leave, close | leave releases the work to the caller's close |
//! | worker slot | all | acquire and release: a visit sees all that precedes its notification |
//! | parked workers | park, notify | the fences below |
//!
//! The first two are in `work_slot` and `worker_slot`; parked workers are an [`AtomicCpuMask`].
//!
//! An item must not wait for helpers that sleep. Both sides store, then load, with a full fence in between,
//! so that at least one of them sees the other's store:
//!
//! ```text
//!   caller   publish the item    fence    any worker parked?     then notify two
//!   helper   mark as parked      fence    any item published?    then do not sleep
//! ```
//!
//! A caller notifies two workers. A helper that joins notifies two more while the item has room for them, so
//! the number of helpers doubles with each step. A worker that was notified and cannot join, as it is
//! reserved or leaves meanwhile, passes the notification on ([`Dispatch::notify_for_published`]).
//!
//! `AWAITED` cannot be lost: the caller sets it in the slot's word, in which visits are counted, and the last
//! helper to leave subtracts its visit from the same word.
//!
//! # Accounting
//!
//! A helper works for its caller: for the lock order it holds the caller's ranks, and its time is charged to
//! the caller through the item.

mod cpu_mask;
mod helper;
mod item;
mod limit;
#[cfg(all(test, loom))]
#[path = "../tests/loom_dispatch.rs"]
mod loom_tests;
mod reserve;
mod work_slot;
mod worker_slot;

pub use item::{Progress, Visitor, Work, WorkItem};

use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU32, Ordering::*, fence};
use crate::sync::{Carve, PerCpu};
use crate::units::{CpuId, MAX_CPUS, NodeId, NodeMask};
use core::fmt;
use cpu_mask::AtomicCpuMask;
use limit::HelperLimit;
use work_slot::{NodeSlots, WorkSlot};
use worker_slot::WorkerSlot;

/// Workers that a caller, or a helper that joins, notifies at once.
const FANOUT: u32 = if cfg!(loom) { 1 } else { 2 };

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
pub struct Dispatch<C: Cpu> {
    workers: PerCpu<WorkerSlot<C>, C>,
    /// Work slots of each node, indexed by the number of the node as a `CpuId`.
    nodes: PerCpu<NodeSlots<C>, C>,
    parked: AtomicCpuMask<C>,
    limit: HelperLimit<C>,
    poll_limit: AtomicU32<C>,
}

impl<C: Cpu> Dispatch<C> {
    /// A dispatch without workers: nothing can be published.
    pub fn empty() -> Self {
        Self::new(PerCpu::none(), PerCpu::none())
    }

    /// A worker slot for each CPU, without a helper, and work slots for each node. `None` if the memory
    /// does not suffice, or there are more than [`MAX_CPUS`] CPUs.
    pub fn carve(from: &mut impl Carve, nr_cpus: u32, node_of: impl Fn(CpuId) -> NodeId) -> Option<Self> {
        if nr_cpus as usize > MAX_CPUS {
            return None;
        }
        let workers = PerCpu::carve(from, nr_cpus, |cpu| WorkerSlot::new(node_of(cpu)))?;
        let last_node = workers.iter().map(|(_, worker)| worker.node.0).max().unwrap_or(0);
        let nr_nodes = last_node.checked_add(1)?;
        let nodes = PerCpu::carve(from, nr_nodes, |node| NodeSlots::new(node.0))?;
        Some(Self::new(workers, nodes))
    }

    const fn new(workers: PerCpu<WorkerSlot<C>, C>, nodes: PerCpu<NodeSlots<C>, C>) -> Self {
        let poll_limit = AtomicU32::new(PollLimit::SHORT.0);
        Self { workers, nodes, parked: AtomicCpuMask::new(), limit: HelperLimit::new(), poll_limit }
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
        // Relaxed: it orders nothing.
        self.poll_limit.store(limit.0, Relaxed);
    }

    fn poll_limit(&self) -> u32 {
        self.poll_limit.load(Relaxed)
    }

    /// Sets how many helpers may be at work at once; those at work go on.
    pub fn set_max_helpers(&self, max: u32) {
        self.limit.set_max(max);
        self.notify_for_published(C::id());
    }

    /// Number of helpers that could join an item published now; may be stale.
    pub fn nr_available_racy(&self) -> u32 {
        self.limit.nr_available_racy()
    }

    /// Whether the worker slot of `cpu` has a helper that stays; may be stale.
    pub fn has_helper_racy(&self, cpu: CpuId) -> bool {
        cpu.0 < self.nr_cpus() && self.workers.of(cpu).has_helper_racy()
    }

    /// Dismisses the helper of `cpu`, and waits until it has left: its visit ends with the chunk under way.
    /// May sleep.
    pub fn dismiss(&self, cpu: CpuId) {
        if cpu.0 < self.nr_cpus() {
            self.workers.of(cpu).dismiss();
        }
    }

    /// Dismisses all helpers, and accepts no others. May sleep.
    pub fn close(&self) {
        self.workers.iter().for_each(|(_, worker)| worker.close());
        self.workers.iter().for_each(|(_, worker)| worker.wait_until_gone());
    }

    /// Publishes `item` while `own` runs: up to `max_helpers` helpers of `nodes` may join at once. When this
    /// returns, or unwinds, no helper visits the item or will. `own` runs also if no work slot is free.
    ///
    /// May sleep, until the visits under way have ended.
    pub fn publish<R>(
        &self,
        item: &WorkItem<'_, C>,
        (max_helpers, nodes): (u32, NodeMask),
        own: impl FnOnce() -> R,
    ) -> R {
        // The item outlives this guard, which outlives every visit: `Joined::item` relies on that.
        let _published = self.open_slot(item, (max_helpers, nodes));
        // Pairs with the fence of `Helper::park`: either this sees the worker as parked, or that sees the
        // item.
        if !mutant!("dispatch.publish-fence-skipped") {
            fence::<C>(SeqCst);
        }
        self.notify_parked(C::id(), nodes);
        own()
    }

    /// Publishes in a free slot of this CPU's node, or else of another one.
    fn open_slot(&self, item: &WorkItem<'_, C>, limits: (u32, NodeMask)) -> Option<Published<'_, C>> {
        let slot = self.nodes_from(self.node_of(C::id())).find_map(|slots| slots.open(item, limits))?;
        Some(Published { dispatch: self, slot })
    }

    /// The work slots of all nodes, from those of `node` on.
    fn nodes_from(&self, node: NodeId) -> impl Iterator<Item = &NodeSlots<C>> {
        let all = self.nr_nodes();
        (node.0..all).chain(0..node.0.min(all)).map(|node| self.nodes.of(CpuId(node)))
    }

    /// The work slot of an assignment.
    fn slot(&self, number: u32) -> &WorkSlot<C> {
        self.nodes.of(CpuId(number / work_slot::NR_SLOTS)).slot(number)
    }

    /// Work slots in use, from those of `node` on.
    fn slots_in_use(&self, node: NodeId) -> impl Iterator<Item = &WorkSlot<C>> {
        self.nodes_from(node).flat_map(NodeSlots::in_use)
    }

    /// Notifies parked workers of `nodes`, [`FANOUT`] at most, from the CPU behind `me` on.
    fn notify_parked(&self, me: CpuId, nodes: NodeMask) {
        let is_notified = |&cpu: &CpuId| {
            let worker = self.workers.of(cpu);
            nodes.contains(worker.node) && self.parked.remove(cpu) && worker.notify_idle()
        };
        self.parked.iter_from(me, self.nr_cpus()).filter(is_notified).take(FANOUT as usize).for_each(drop);
    }

    /// Notifies parked workers for each published item that has room. Called where a worker joins, where a
    /// notification may have gone to a worker that cannot join, and where room is made.
    fn notify_for_published(&self, me: CpuId) {
        // Pairs with the fence of `Helper::park`, where room was made.
        fence::<C>(SeqCst);
        let nodes = self.slots_in_use(NodeId(0)).map(WorkSlot::joinable_from_racy);
        nodes.filter(|nodes| *nodes != NodeMask::EMPTY).for_each(|nodes| self.notify_parked(me, nodes));
    }

    /// `count` helpers are no longer at work. Where the limit was reached, others may have parked.
    fn end_work(&self, count: u32) {
        if self.limit.end(count) && !mutant!("dispatch.room-not-announced") {
            self.notify_for_published(C::id());
        }
    }
}

/// A published item; closed when dropped.
struct Published<'d, C: Cpu> {
    dispatch: &'d Dispatch<C>,
    slot: work_slot::OpenSlot<'d, C>,
}

impl<C: Cpu> Drop for Published<'_, C> {
    fn drop(&mut self) {
        self.slot.close(self.dispatch.poll_limit());
    }
}

impl<C: Cpu> fmt::Debug for Dispatch<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dispatch to {} CPUs", self.nr_cpus())
    }
}
