//! Work slots: callers publish items in them, and helpers join the items. *Open* and *close* are the caller's
//! steps under the slot's lock, *join* and *leave* the helpers'. Helpers poll `in_use` and `joinable`, which
//! may be stale; a caller that waits for the last visit polls `ended`, and then sleeps on it.

use super::Limit;
use super::worker_slot::WorkerSlot;
use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use crate::sync::{AtomicCpuMask, SpinLock, lockdep};
use crate::units::{CpuId, CpuMask, NodeId, NodeMask, bits};
use crate::work::Spent;

/// Work slots of a node. A job that finds none free is done by its caller.
pub(super) const NR_SLOTS: u32 = 64;

/// Work that helpers may visit.
pub trait Work<C: Cpu>: Sync {
    /// Does a part of the work, as a helper, which is expedited meanwhile. Returns after a bounded time, so
    /// that other threads get the CPU.
    fn visit(&self, visit: &Visit<'_, C>) -> VisitEnd;

    /// Called when the reserved worker of `cpu` leaves, dismissed or by a panic.
    fn detach(&self, _cpu: CpuId) {}
}

/// How a visit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VisitEnd {
    /// There is more to do: the helper visits again after other threads had the CPU.
    Paused,
    /// The helper finds no more work to begin.
    Exhausted,
}

/// Work of a caller, on its stack.
pub(super) struct Item<'a, C: Cpu> {
    pub(super) work: &'a (dyn Work<C> + 'a),
    /// Lock ranks that the caller holds.
    pub(super) held: u64,
}

/// The helpers that may join an item.
#[derive(Clone, Copy, Debug)]
pub struct Helpers<'a> {
    /// How many at once.
    pub(super) max: u32,
    /// Idle helpers of these nodes; `None` where the helpers are reserved ones.
    pub(super) nodes: Option<NodeMask>,
    /// Helpers of these CPUs.
    pub(super) cpus: &'a CpuMask,
}

impl<'a> Helpers<'a> {
    /// Idle helpers of `nodes` and `cpus`, up to `max` at once.
    pub const fn idle(max: u32, nodes: NodeMask, cpus: &'a CpuMask) -> Self {
        Self { max, nodes: Some(nodes), cpus }
    }

    /// The helpers of these CPUs, which the caller has reserved.
    pub const fn reserved(cpus: &'a CpuMask) -> Self {
        Self { max: u32::MAX, nodes: None, cpus }
    }
}

/// The item of a slot, and its visits.
struct State<C: Cpu> {
    item: *const Item<'static, C>,
    /// Helpers that may join at once; 0 where the slot is closed, or all of the work has begun.
    max: u32,
    /// As in [`Helpers`].
    nodes: Option<NodeMask>,
    /// Visits under way.
    visits: u32,
    /// CPUs whose helpers have visited.
    visitors: CpuMask<C::CpuWords>,
    /// Nanoseconds of the visits that have ended.
    helper_ns: u64,
    /// The caller sleeps until the last visit has ended.
    is_awaited: bool,
}

// SAFETY: the item is shared only (`Item` is `Sync`, as its work is); the pointer may be used on any thread.
unsafe impl<C: Cpu> Send for State<C> {}

impl<C: Cpu> State<C> {
    fn new(item: *const Item<'static, C>, max: u32, nodes: Option<NodeMask>) -> Self {
        let visitors = CpuMask::new();
        Self { item, max, nodes, visits: 0, visitors, helper_ns: 0, is_awaited: false }
    }

    /// Nodes whose idle helpers may join.
    fn joinable_from(&self) -> NodeMask {
        if self.visits < self.max { self.nodes.unwrap_or(NodeMask::EMPTY) } else { NodeMask::EMPTY }
    }

    /// Adds a visit of the helper of a CPU of the set, idle on a node or reserved. False where it may not
    /// join.
    fn join(&mut self, cpu: CpuId, idle_on: Option<NodeId>) -> bool {
        let is_wanted = match (self.nodes, idle_on) {
            (Some(nodes), Some(node)) => nodes.contains(node),
            (nodes, idle_on) => nodes.is_none() && idle_on.is_none(),
        };
        let may_join = is_wanted && self.visits < self.max;
        if may_join {
            self.visits += 1;
            self.visitors.insert(cpu);
        }
        may_join
    }

    /// Ends a visit. True where the caller is to be woken.
    fn leave(&mut self, took_ns: u64, is_drained: bool) -> bool {
        self.visits -= 1;
        self.helper_ns = self.helper_ns.saturating_add(took_ns);
        if is_drained {
            self.max = 0;
        }
        self.visits == 0 && core::mem::take(&mut self.is_awaited)
    }

    /// Closes the slot. `None` while a visit is under way; then, `sleeps` has the last one wake the caller.
    fn close(&mut self, sleeps: bool) -> Option<Spent> {
        if !mutant!("dispatch.closed-slot-joined") {
            self.max = 0;
        }
        self.is_awaited = sleeps && self.visits > 0;
        let is_left = self.visits == 0 || mutant!("dispatch.visits-not-awaited");
        is_left.then(|| Spent { helpers: self.visitors.count(), helper_ns: self.helper_ns })
    }
}

/// Work slots of the callers on one node.
pub(super) struct NodeSlots<C: Cpu> {
    /// A bit for each slot in use. Acquire and release: a caller sees the slot as the previous one left it.
    in_use: AtomicU64<C>,
    /// Of the node's helpers.
    pub(super) limit: Limit<C>,
    slots: [WorkSlot<C>; NR_SLOTS as usize],
}

/// A slot for one published item.
#[repr(align(64))]
pub(super) struct WorkSlot<C: Cpu> {
    state: SpinLock<State<C>, C, { lockdep::JOB.0 }>,
    /// [`State::joinable_from`], to be polled. Relaxed: the lock decides, and `Dispatch` has the fences.
    joinable: AtomicU64<C>,
    /// [`Helpers::cpus`]. Changed under the lock, while the slot is closed.
    cpus: AtomicCpuMask<C>,
    /// Number of visits that have ended; it may wrap. Relaxed: changed under the lock.
    ended: AtomicU32<C>,
}

impl<C: Cpu> NodeSlots<C> {
    pub(super) fn new() -> Self {
        Self {
            in_use: AtomicU64::new(0),
            limit: Limit::new(),
            slots: core::array::from_fn(|_| WorkSlot::new()),
        }
    }

    /// A slot, by its number modulo [`NR_SLOTS`].
    pub(super) fn slot(&self, number: u32) -> &WorkSlot<C> {
        &self.slots[(number % NR_SLOTS) as usize]
    }

    /// Slots in use, also those that are not open yet, or closed.
    pub(super) fn in_use(&self) -> impl Iterator<Item = &WorkSlot<C>> {
        bits(self.in_use.load(Acquire)).map(|number| self.slot(number))
    }

    /// Takes a free slot.
    pub(super) fn take(&self) -> Option<u32> {
        let first_free = |used: u64| used.checked_add(1).map(|next| used | next);
        Some((!self.in_use.update(AcqRel, Relaxed, first_free).ok()?).trailing_zeros())
    }

    /// Frees a slot that its caller has closed.
    pub(super) fn free(&self, number: u32) {
        self.in_use.fetch_and(!(1 << number), AcqRel);
    }
}

impl<C: Cpu> WorkSlot<C> {
    fn new() -> Self {
        let state = SpinLock::new(State::new(core::ptr::null(), 0, None));
        Self { state, joinable: AtomicU64::new(0), cpus: AtomicCpuMask::new(), ended: AtomicU32::new(0) }
    }

    fn change<R>(&self, change: impl FnOnce(&mut State<C>) -> R) -> R {
        let mut state = self.state.lock();
        let result = change(&mut state);
        self.joinable.store(state.joinable_from().bits(), Relaxed);
        result
    }

    /// Publishes `item`.
    ///
    /// # Safety
    /// 1. The item stays in place, and is shared only, until [`WorkSlot::close`] has returned.
    /// 2. The caller has taken the slot, and frees it after that: no other caller opens it meanwhile.
    pub(super) unsafe fn open(&self, item: &Item<'_, C>, helpers: Helpers<'_>) {
        let item = (&raw const *item).cast::<Item<'static, C>>();
        self.change(|state| {
            self.cpus.assign(helpers.cpus);
            *state = State::new(item, helpers.max, helpers.nodes);
        });
    }

    /// Closes the slot to helpers, and waits until the last visit has ended. Returns what the visits cost.
    pub(super) fn close(&self, poll_limit: u32) -> Spent {
        let mut polls = 0;
        loop {
            let sleeps = polls >= poll_limit;
            // Read in the step that closes: no more visits begin, and those under way are too few for the
            // number to come round to `seen`.
            let (spent, seen) = self.change(|state| (state.close(sleeps), self.ended.load(Relaxed)));
            if let Some(spent) = spent {
                return spent;
            }
            if sleeps {
                self.ended.sleep_while(seen);
            }
            C::relax();
            while polls < poll_limit && self.ended.load(Relaxed) == seen {
                polls += C::spin(poll_limit - polls);
            }
        }
    }

    /// The nodes from which idle helpers may join; may be stale.
    pub(super) fn joinable_from_racy(&self) -> NodeMask {
        NodeMask::from_bits(self.joinable.load(Relaxed))
    }

    /// Whether the helper may join among those of its node; may be stale.
    pub(super) fn is_for_racy(&self, cpu: CpuId) -> bool {
        self.cpus.contains(cpu)
    }

    /// Visits under way.
    #[cfg(all(test, not(loom)))]
    pub(super) fn nr_visits(&self) -> u32 {
        self.change(|state| state.visits)
    }

    /// Begins a visit of a helper, idle or reserved. `None` where it may not join.
    pub(super) fn join<'s>(&'s self, worker: &'s WorkerSlot<C>, is_reserved: bool) -> Option<Visit<'s, C>> {
        let idle_on = (!is_reserved).then_some(worker.node);
        let item = self.change(|state| {
            let joins = self.cpus.contains(worker.cpu) && state.join(worker.cpu, idle_on);
            joins.then_some(state.item)
        })?;
        // SAFETY: the visit was added, under the lock, while the slot was open (`max` is 0 before and after).
        // So its caller has not returned from `close`, and does not before the visit is subtracted, which is
        // the last step of `Visit::drop`; until then the item stays in place (`open`, 1), and the visits that
        // are counted are those of this item (`open`, 2).
        let item = unsafe { &*item };
        let own_ranks = C::with_context(|context| context.inherit_held(item.held));
        Some(Visit { slot: self, item, worker, began_ns: C::now_ns(), own_ranks, is_drained: false })
    }

    fn leave(&self, took_ns: u64, is_drained: bool) {
        let is_awaited = self.change(|state| {
            self.ended.fetch_add(1, Relaxed);
            state.leave(took_ns, is_drained)
        });
        if is_awaited && !mutant!("dispatch.caller-not-woken") {
            self.ended.wake(u32::MAX);
        }
    }
}

/// A helper's visit to a slot's item; ends when dropped. For the lock order, the helper holds meanwhile what
/// its caller holds, and its time is charged to the caller.
pub struct Visit<'s, C: Cpu> {
    slot: &'s WorkSlot<C>,
    pub(super) item: &'s Item<'s, C>,
    worker: &'s WorkerSlot<C>,
    pub began_ns: u64,
    own_ranks: u64,
    /// Set where all of the work has begun: no other helper joins.
    pub(super) is_drained: bool,
}

impl<C: Cpu> Visit<'_, C> {
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
        // The last step: the item may be gone from here on.
        self.slot.leave(took_ns, self.is_drained);
    }
}

#[cfg(all(test, not(loom)))]
#[path = "../tests/work_slot.rs"]
mod tests;
