//! Work slots: callers publish items in them, and helpers join the items.
//!
//! A slot's word says whether helpers may join, and counts the visits under way:
//!
//! ```text
//!             open               join               leave
//!   closed ----------> open, 0 --------> open, n ---------> open, n - 1
//!      ^                               | close
//!      +--- n = 0 <-- leave -- closed, n
//! ```
//!
//! | bits | say |
//! |---|---|
//! | `OPEN` | helpers may join |
//! | `AWAITED` | the caller sleeps on the word until the last visit has ended |
//! | `DRAINED` | a helper found nothing left to begin: no other helper joins |
//! | 3..16 | visits under way |
//! | 16..32 | generation: items published here so far, modulo 65536 |
//!
//! *Open* and *close* are the caller's, *join* and *leave* the helpers'. Open releases the item to the join.
//! Leave releases the work to the caller, which acquires it in close, and owns the item again once no
//! visit is left. The generation makes a join fail that was decided on for an earlier item. Should it wrap
//! in between, an idle helper looks again whether the item is for it, and leaves otherwise; a reserved
//! worker visits the item that is there now, as one helper too many: that is a visit like any other.

use super::cpu_mask::bits;
use super::item::WorkItem;
use super::worker_slot::Assignment;
use crate::machine::Cpu;
use crate::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use crate::units::{NodeId, NodeMask};

const OPEN: u32 = 1;
const AWAITED: u32 = 2;
const DRAINED: u32 = 4;
const VISIT: u32 = 8;
const GENERATION: u32 = 1 << 16;
const MAX_VISITS: u32 = GENERATION / VISIT - 1;

/// Work slots of a node. A job that finds none free is done by its caller.
pub(super) const NR_SLOTS: u32 = 64;

const fn visits(word: u32) -> u32 {
    (word / VISIT) & MAX_VISITS
}

/// The next item is published.
const fn open(word: u32) -> u32 {
    (word & !(GENERATION - 1)).wrapping_add(GENERATION) | OPEN
}

/// A helper joins, one of at most `max`.
const fn join(word: u32, max: u32) -> Option<u32> {
    let has_room = word & (OPEN | DRAINED) == OPEN && visits(word) < max && visits(word) < MAX_VISITS;
    if has_room { Some(word + VISIT) } else { None }
}

/// A helper leaves, with the bits of `mark` set. The caller is awake once the last one has left.
const fn leave(word: u32, mark: u32) -> u32 {
    let left = (word - VISIT) | mark;
    if visits(left) == 0 { left & !AWAITED } else { left }
}

/// The caller sleeps; `None` where no visit is left.
const fn await_visits(word: u32) -> Option<u32> {
    if visits(word) > 0 { Some(word | AWAITED) } else { None }
}

/// Work slots of the callers on one node.
pub(super) struct NodeSlots<C: Cpu> {
    /// Number of the first slot in the pool.
    first: u32,
    /// A bit for each slot in use. Acquire and release: a caller sees the slot as the previous one left it.
    in_use: AtomicU64<C>,
    slots: [WorkSlot<C>; NR_SLOTS as usize],
}

/// A slot for one published item.
#[repr(align(64))]
pub(super) struct WorkSlot<C: Cpu> {
    /// See the module.
    word: AtomicU32<C>,
    /// Number of helpers that may visit at once. Relaxed, as what follows: ordered by `word`.
    max_helpers: AtomicU32<C>,
    /// Nodes whose idle helpers may join.
    nodes: AtomicU64<C>,
    item: AtomicPtr<WorkItem<'static, C>, C>,
}

impl<C: Cpu> NodeSlots<C> {
    /// The slots of `node`, none of them in use.
    pub(super) const fn new(node: u32) -> Self {
        Self {
            first: node * NR_SLOTS,
            in_use: AtomicU64::new(0),
            slots: [const { WorkSlot::new() }; NR_SLOTS as usize],
        }
    }

    /// A slot of this node, by its number in the pool.
    pub(super) fn slot(&self, number: u32) -> &WorkSlot<C> {
        &self.slots[(number % NR_SLOTS) as usize]
    }

    /// Publishes `item` in a free slot. `None` where there is none.
    ///
    /// The item must be left in place until the result is closed.
    pub(super) fn open(
        &self,
        item: &WorkItem<'_, C>,
        (max_helpers, nodes): (u32, NodeMask),
    ) -> Option<OpenSlot<'_, C>> {
        let first_free = |used: u64| used.checked_add(1).map(|next| used | next);
        let bit = (!self.in_use.update(AcqRel, Relaxed, first_free).ok()?).trailing_zeros();
        let slot = &self.slots[bit as usize];
        slot.max_helpers.store(max_helpers, Relaxed);
        slot.nodes.store(nodes.bits(), Relaxed);
        slot.item.store((&raw const *item).cast::<WorkItem<'static, C>>().cast_mut(), Relaxed);
        let word = open(slot.word.load(Relaxed));
        // Release: pairs with `WorkSlot::join`.
        slot.word.store(word, Release);
        Some(OpenSlot { slots: self, bit, slot, word })
    }

    /// Slots in use, including those that their callers are about to open or have just closed.
    pub(super) fn in_use(&self) -> impl Iterator<Item = &WorkSlot<C>> {
        bits(self.in_use.load(Acquire)).map(|bit| &self.slots[bit as usize])
    }
}

/// A slot in which an item is published.
pub(super) struct OpenSlot<'s, C: Cpu> {
    slots: &'s NodeSlots<C>,
    bit: u32,
    slot: &'s WorkSlot<C>,
    /// The slot's word as it was opened.
    word: u32,
}

impl<C: Cpu> OpenSlot<'_, C> {
    /// The assignment with which a reserved worker joins.
    pub(super) fn assignment(&self) -> Assignment {
        Assignment { slot: self.slots.first + self.bit, opened: self.word }
    }

    /// Closes the slot to helpers, waits until the last visit has ended, and frees the slot. Called once.
    pub(super) fn close(&self, poll_limit: u32) {
        self.slot.close(poll_limit);
        self.slots.in_use.fetch_and(!(1 << self.bit), AcqRel);
    }
}

impl<C: Cpu> WorkSlot<C> {
    const fn new() -> Self {
        let (max_helpers, nodes) = (AtomicU32::new(0), AtomicU64::new(0));
        Self { word: AtomicU32::new(0), max_helpers, nodes, item: AtomicPtr::null() }
    }

    fn close(&self, poll_limit: u32) {
        // Acquire, here and below: pairs with `Joined::leave`.
        let mut word = self.word.fetch_and(!OPEN, AcqRel);
        let mut polls = 0;
        while visits(word) > 0 && !mutant!("dispatch.visits-not-awaited") {
            if polls < poll_limit {
                polls += 1;
            } else if let Ok(was) = self.word.update(AcqRel, Acquire, await_visits) {
                self.word.sleep_while(was | AWAITED);
            }
            C::relax();
            word = self.word.load(Acquire);
        }
    }

    /// The nodes from which idle helpers may join. None where the slot is closed, or has no room. May be
    /// stale.
    pub(super) fn joinable_from_racy(&self) -> NodeMask {
        let has_room = join(self.word.load(Acquire), self.max_helpers.load(Relaxed)).is_some();
        if has_room { NodeMask::from_bits(self.nodes.load(Relaxed)) } else { NodeMask::EMPTY }
    }

    /// Joins as an idle helper of `node`.
    pub(super) fn join(&self, node: NodeId) -> Option<Joined<'_, C>> {
        // Read behind the word, which the join finds unchanged: so they are this item's. Should 65536 items
        // have been published in between, they may be another item's; then the second look refuses.
        let is_wanted = || NodeMask::from_bits(self.nodes.load(Relaxed)).contains(node);
        let joined = |word| join(word, self.max_helpers.load(Relaxed)).filter(|_| is_wanted());
        let (visit, nr_before) = self.join_if(joined)?;
        (is_wanted() && nr_before < self.max_helpers.load(Relaxed)).then_some(visit)
    }

    /// Joins the item that was published as `opened`, as a reserved worker.
    pub(super) fn join_reserved(&self, opened: u32) -> Option<Joined<'_, C>> {
        let is_opened = |word: u32| word / GENERATION == opened / GENERATION;
        let joined = |word| join(word, MAX_VISITS).filter(|_| is_opened(word));
        self.join_if(joined).map(|(visit, _)| visit)
    }

    /// The visit, and how many were under way before.
    fn join_if(&self, joined: impl Fn(u32) -> Option<u32>) -> Option<(Joined<'_, C>, u32)> {
        let open = if mutant!("dispatch.closed-slot-joined") { OPEN } else { 0 };
        // Acquire, also where the word is read: pairs with `NodeSlots::open`.
        let was = self.word.update(AcqRel, Acquire, |word| joined(word | open)).ok()?;
        Some((Joined { slot: self, mark: 0 }, visits(was)))
    }
}

/// A visit to a slot's item; ends when dropped, also by unwinding.
pub(super) struct Joined<'s, C: Cpu> {
    slot: &'s WorkSlot<C>,
    mark: u32,
}

impl<C: Cpu> Joined<'_, C> {
    /// The item.
    pub(super) fn item(&self) -> &WorkItem<'_, C> {
        // SAFETY: this visit is counted in the slot's word, and was added while the slot was open. So the
        // caller that published the item has not returned from `WorkSlot::close`, and does not before the
        // visit is subtracted, when `self` is dropped; until then the item stays in place
        // (`Dispatch::publish` has borrowed it), and is shared only. The pointer was stored before the word
        // was, which the join has acquired; and it is not stored again while the slot is in use.
        unsafe { &*self.slot.item.load(Relaxed) }
    }

    /// Notes that all work of the item has begun: no other helper joins.
    pub(super) fn mark_drained(&mut self) {
        self.mark = DRAINED;
    }
}

impl<C: Cpu> Drop for Joined<'_, C> {
    fn drop(&mut self) {
        let left = |word| Some(leave(word, self.mark));
        // Release: pairs with `WorkSlot::close`. The item may be gone from here on.
        let order = if mutant!("dispatch.leave-relaxed") { Relaxed } else { AcqRel };
        if let Ok(was) = self.slot.word.update(order, Relaxed, left)
            && was & AWAITED != 0
            && visits(was) == 1
            && !mutant!("dispatch.caller-not-woken")
        {
            self.slot.word.wake(u32::MAX);
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "../tests/work_slot.rs"]
mod tests;
