//! Worker slots: the state of each CPU's helper, and the word on which it sleeps.
//!
//! ```text
//!            begin                 reserve
//!   IDLE -----------> BUSY   IDLE -----------> RESERVED
//!        <-----------             <-----------
//!            end                   release
//! ```
//!
//! *Begin* and *end* are the helper's: in between it visits an item that it has found. *Reserve* and
//! *release* are a caller's: in between the helper visits that caller's item only, whenever it is notified.
//!
//! | bit | set by | says |
//! |---|---|---|
//! | `NOTIFIED` | any CPU | there may be work: the helper clears the bit, and looks |
//! | `PARKED` | the helper | it sleeps on the word: a notification wakes it |
//! | `LEAVING` | any CPU, the helper | the helper leaves, and cannot be reserved |
//! | `GONE` | the helper | the slot has no helper |
//! | `CLOSED` | the pool's owner | the helper leaves, and no other arrives |

use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use crate::units::NodeId;

const IDLE: u32 = 0;
const BUSY: u32 = 1;
const RESERVED: u32 = 2;
const STATE: u32 = 3;
const NOTIFIED: u32 = 4;
const PARKED: u32 = 8;
const LEAVING: u32 = 16;
const GONE: u32 = 32;
const CLOSED: u32 = 64;

/// The slot has no helper, or its helper is about to leave.
const ABSENT: u32 = LEAVING | GONE | CLOSED;

const fn change(word: u32, from: u32, to: u32) -> Option<u32> {
    if word & STATE == from { Some(word & !STATE | to) } else { None }
}

/// A helper arrives at a slot that has none.
const fn arrive(word: u32) -> Option<u32> {
    if word & GONE != 0 && word & CLOSED == 0 { Some(word & !(GONE | LEAVING)) } else { None }
}

/// An idle helper begins to visit an item that it has found.
const fn begin(word: u32) -> Option<u32> {
    if word & ABSENT == 0 { change(word, IDLE, BUSY) } else { None }
}

/// A caller reserves an idle helper.
const fn reserve(word: u32) -> Option<u32> {
    if word & ABSENT == 0 { change(word, IDLE, RESERVED) } else { None }
}

/// A caller releases a reserved helper, which then looks for work.
const fn release(word: u32) -> Option<u32> {
    change(word | NOTIFIED, RESERVED, IDLE)
}

/// The helper of an idle slot is notified.
const fn notify_idle(word: u32) -> Option<u32> {
    if word & (STATE | ABSENT) == IDLE { Some(word | NOTIFIED) } else { None }
}

/// The helper falls asleep; `None` where it is notified or has to leave.
const fn park(word: u32) -> Option<u32> {
    if word & (NOTIFIED | LEAVING | CLOSED) == 0 { Some(word | PARKED) } else { None }
}

/// The helper is told to leave; `None` where it has left.
const fn dismiss(word: u32) -> Option<u32> {
    if word & GONE == 0 { Some(word | LEAVING) } else { None }
}

/// The helper has left.
const fn depart(word: u32) -> u32 {
    word & !(PARKED | LEAVING | NOTIFIED) | GONE
}

/// Number of threads to wake: the helper and the CPUs that wait for its departure sleep on the same word.
const ALL: u32 = u32::MAX;

/// One CPU's worker slot.
pub(super) struct WorkerSlot<C: Cpu> {
    /// See the module. Every change acquires and releases.
    word: AtomicU32<C>,
    pub(super) node: NodeId,
    /// The item of a reserved worker, as an [`Assignment`] packed; 0 for none. Relaxed: ordered by `word`.
    assigned: AtomicU64<C>,
}

/// Next action of a helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Not reserved: look for items to join.
    LookForItems,
    /// Reserved and notified: visit the assigned item.
    VisitAssigned,
    /// Reserved and not notified.
    Wait,
}

/// The item of a reserved worker: the work slot and the word with which it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Assignment {
    pub(super) slot: u32,
    pub(super) opened: u32,
}

impl Assignment {
    const fn pack(self) -> u64 {
        (self.slot as u64) << 32 | self.opened as u64
    }

    const fn unpack(word: u64) -> Option<Self> {
        if word == 0 { None } else { Some(Self { slot: (word >> 32) as u32, opened: word as u32 }) }
    }
}

impl<C: Cpu> WorkerSlot<C> {
    /// A slot without a helper.
    pub(super) const fn new(node: NodeId) -> Self {
        Self { word: AtomicU32::new(IDLE | GONE), node, assigned: AtomicU64::new(0) }
    }

    fn try_change(&self, next: fn(u32) -> Option<u32>) -> Option<u32> {
        self.word.update(AcqRel, Acquire, next).ok()
    }

    /// Wakes the helper, if `was`, the word before a change, says that it sleeps and was not notified.
    fn wake(&self, was: u32) -> u32 {
        if was & (PARKED | NOTIFIED) == PARKED {
            self.word.wake(ALL);
        }
        was
    }
}

/// Methods for the helper.
impl<C: Cpu> WorkerSlot<C> {
    /// Whether the helper has to leave.
    pub(super) fn must_leave(&self) -> bool {
        self.word.load(Acquire) & (LEAVING | CLOSED) != 0
    }

    /// Whether a caller has reserved the helper.
    pub(super) fn is_reserved(&self) -> bool {
        self.word.load(Acquire) & STATE == RESERVED
    }

    /// Makes the current thread the slot's helper. False where there is one, or the slot is closed.
    pub(super) fn arrive(&self) -> bool {
        self.try_change(arrive).is_some()
    }

    /// Begins a visit to an item found by polling; false where the helper is reserved or has to leave.
    pub(super) fn begin(&self) -> bool {
        self.try_change(begin).is_some()
    }

    /// Ends such a visit.
    pub(super) fn end(&self) {
        self.word.fetch_sub(BUSY - IDLE, AcqRel);
    }

    /// The helper's next action. Clears the notification, if there is one, in the step that reads the state,
    /// as a caller may reserve the helper and notify it at any time.
    pub(super) fn next(&self) -> Next {
        let mut word = self.word.load(Acquire);
        if word & NOTIFIED != 0 {
            word = self.word.fetch_and(!NOTIFIED, AcqRel);
        }
        match word & STATE {
            RESERVED if word & NOTIFIED != 0 => Next::VisitAssigned,
            RESERVED => Next::Wait,
            _ => Next::LookForItems,
        }
    }

    /// Sleeps until the helper is notified or has to leave.
    pub(super) fn park(&self) {
        if let Some(was) = self.try_change(park) {
            self.word.sleep_while(was | PARKED);
            self.word.fetch_and(!PARKED, AcqRel);
        }
    }

    /// The item to visit while reserved.
    pub(super) fn assigned(&self) -> Option<Assignment> {
        Assignment::unpack(self.assigned.load(Relaxed))
    }

    /// First step of the departure: from here on the helper cannot be reserved. True where it is reserved.
    pub(super) fn begin_departure(&self) -> bool {
        self.word.fetch_or(LEAVING, AcqRel) & STATE == RESERVED
    }

    /// Second step: the helper has left, and another may arrive.
    pub(super) fn depart(&self) {
        if let Some(was) = self.try_change(|word| Some(depart(word)))
            && was & (LEAVING | CLOSED) != 0
        {
            self.word.wake(ALL);
        }
    }
}

/// Methods for other CPUs.
impl<C: Cpu> WorkerSlot<C> {
    /// Whether the slot has a helper that is not leaving; may be stale.
    pub(super) fn has_helper_racy(&self) -> bool {
        self.word.load(Relaxed) & ABSENT == 0
    }

    /// Reserves an idle helper.
    pub(super) fn reserve(&self) -> bool {
        self.try_change(reserve).is_some()
    }

    /// Sets the item that a reserved helper visits when it is notified; `None` for none.
    pub(super) fn assign(&self, item: Option<Assignment>) {
        self.assigned.store(item.map_or(0, Assignment::pack), Relaxed);
    }

    /// Releases a reserved helper.
    pub(super) fn release(&self) {
        self.assign(None);
        self.try_change(release).map(|was| self.wake(was));
    }

    /// Notifies the helper: it looks for work, or visits its assigned item again. False where the slot has no
    /// helper, or one that is leaving.
    pub(super) fn notify(&self) -> bool {
        let order = if mutant!("dispatch.notify-relaxed") { Relaxed } else { AcqRel };
        self.wake(self.word.fetch_or(NOTIFIED, order)) & ABSENT == 0
    }

    /// As [`notify`](Self::notify); false where the helper is not idle.
    pub(super) fn notify_idle(&self) -> bool {
        self.try_change(notify_idle).map(|was| self.wake(was)).is_some()
    }

    /// Tells the helper to leave, and waits until it has left.
    pub(super) fn dismiss(&self) {
        if let Some(was) = self.try_change(dismiss) {
            self.wake(was & !NOTIFIED);
            self.wait_until_gone();
        }
    }

    /// Tells the helper to leave, and accepts no other one.
    pub(super) fn close(&self) {
        self.wake(self.word.fetch_or(CLOSED, AcqRel) & !NOTIFIED);
    }

    /// Waits until the helper that has to leave has left, also where another one has come since.
    pub(super) fn wait_until_gone(&self) {
        loop {
            let now = self.word.load(Acquire);
            // The next helper's arrival clears `LEAVING`.
            let is_next = now & (LEAVING | CLOSED) == 0 && !mutant!("dispatch.next-helper-awaited");
            if now & GONE != 0 || is_next {
                return;
            }
            self.word.sleep_while(now);
            C::relax();
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "../tests/worker_slot.rs"]
mod tests;
