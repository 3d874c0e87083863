//! Worker slots: the state of each CPU's helper, and the word on which it sleeps. A helper is IDLE, BUSY in a
//! visit to an item that it has found, or RESERVED for the item of one caller. The word's bits:
//!
//! | bit | set by | says |
//! |---|---|---|
//! | `NOTIFIED` | any CPU | there may be work: the helper clears the bit, and looks |
//! | `PARKED` | the helper | it sleeps on the word: a notification wakes it |
//! | `LEAVING` | any CPU, the helper | the helper leaves, and cannot be reserved |
//! | `GONE` | the helper | the slot has no helper |
//! | `CLOSED` | the pool's owner | the helper leaves, and no other arrives |

use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU32, Ordering::*};
use crate::units::{CpuId, NodeId};
use crate::work::broken_off::Note;

const IDLE: u32 = 0;
pub(super) const BUSY: u32 = 1;
pub(super) const RESERVED: u32 = 2;
const STATE: u32 = 3;
const NOTIFIED: u32 = 4;
const PARKED: u32 = 8;
const LEAVING: u32 = 16;
const GONE: u32 = 32;
const CLOSED: u32 = 64;
/// The slot has no helper, or its helper is about to leave.
const ABSENT: u32 = LEAVING | GONE | CLOSED;

/// Threads to wake: the helper and the CPUs that wait for its departure sleep on the same word.
const ALL: u32 = u32::MAX;

/// One CPU's worker slot.
pub(super) struct WorkerSlot<C: Cpu> {
    /// See the module. Every change acquires and releases.
    word: AtomicU32<C>,
    pub(super) cpu: CpuId,
    pub(super) node: NodeId,
    /// Number of the work slot that a reserved worker visits. Relaxed: ordered by `word`, and the work slot
    /// names the CPUs for which it is.
    pub(super) assigned: AtomicU32<C>,
    /// What a chunk of the helper's left. While it is not free the helper joins no item that it finds.
    pub(super) note: Note<C>,
}

impl<C: Cpu> WorkerSlot<C> {
    /// A slot without a helper.
    pub(super) const fn new(cpu: CpuId, node: NodeId) -> Self {
        let (word, assigned) = (AtomicU32::new(IDLE | GONE), AtomicU32::new(0));
        Self { word, cpu, node, assigned, note: Note::new() }
    }

    /// Replaces the word unless `next` returns `None`. The word before.
    fn change(&self, next: impl Fn(u32) -> Option<u32>) -> Option<u32> {
        self.word.update(AcqRel, Acquire, next).ok()
    }

    /// Wakes the helper, if `was`, the word before a change, says that it sleeps and was not notified.
    fn wake(&self, was: u32) {
        if was & (PARKED | NOTIFIED) == PARKED {
            self.word.wake(ALL);
        }
    }

    /// Makes an idle helper BUSY or RESERVED; false where it is not idle, or leaves.
    pub(super) fn take(&self, state: u32) -> bool {
        self.change(|word| (word & (STATE | ABSENT) == IDLE).then_some(word | state)).is_some()
    }

    // For the helper.

    pub(super) fn must_leave(&self) -> bool {
        self.word.load(Acquire) & (LEAVING | CLOSED) != 0
    }

    pub(super) fn is_reserved(&self) -> bool {
        self.word.load(Acquire) & STATE == RESERVED
    }

    /// Makes the current thread the slot's helper. False where there is one, or the slot is closed.
    pub(super) fn arrive(&self) -> bool {
        self.change(|word| (word & (GONE | CLOSED) == GONE).then_some(word & !(GONE | LEAVING))).is_some()
    }

    /// A BUSY helper is idle again.
    pub(super) fn end(&self) {
        self.word.fetch_sub(BUSY - IDLE, AcqRel);
    }

    /// Whether the helper is reserved, and whether it was notified. Clears the notification in the step that
    /// reads the state: a caller may reserve the helper at any time.
    pub(super) fn take_notification(&self) -> (bool, bool) {
        let mut word = self.word.load(Acquire);
        if word & NOTIFIED != 0 {
            word = self.word.fetch_and(!NOTIFIED, AcqRel);
        }
        (word & STATE == RESERVED, word & NOTIFIED != 0)
    }

    /// Sleeps until the helper is notified or has to leave.
    pub(super) fn park(&self) {
        let news = if mutant!("dispatch.sleeps-though-notified") { 0 } else { NOTIFIED };
        let has_news = |word: u32| word & (news | LEAVING | CLOSED) != 0;
        if let Some(was) = self.change(|word| (!has_news(word)).then_some(word | PARKED)) {
            self.word.sleep_while(was | PARKED);
            self.word.fetch_and(!PARKED, AcqRel);
        }
    }

    /// First step of the departure: from here on the helper cannot be reserved. True where it is reserved.
    pub(super) fn begin_departure(&self) -> bool {
        self.word.fetch_or(LEAVING, AcqRel) & STATE == RESERVED
    }

    /// Second step: the helper has left, and another may arrive.
    pub(super) fn depart(&self) {
        if self.change(|word| Some(word & !(PARKED | LEAVING | NOTIFIED) | GONE)).is_some() {
            self.word.wake(ALL);
        }
    }

    // For other CPUs.

    /// Whether the slot has a helper that is not leaving; may be stale.
    pub(super) fn has_helper_racy(&self) -> bool {
        self.word.load(Relaxed) & ABSENT == 0
    }

    /// Releases a reserved helper, which then looks for work.
    pub(super) fn release(&self) {
        // One step: a helper that is still reserved would clear the notification.
        let released = |word: u32| Some(word & !STATE | NOTIFIED);
        self.change(released).into_iter().for_each(|was| self.wake(was));
    }

    /// Notifies the helper: it looks for work, or visits its assigned item again. False where it is absent.
    pub(super) fn notify(&self) -> bool {
        let order = if mutant!("dispatch.notify-relaxed") { Relaxed } else { AcqRel };
        let was = self.word.fetch_or(NOTIFIED, order);
        self.wake(was);
        was & ABSENT == 0
    }

    /// As [`notify`](Self::notify); false where the helper is not idle.
    pub(super) fn notify_idle(&self) -> bool {
        let notified = |word: u32| (word & (STATE | ABSENT) == IDLE).then_some(word | NOTIFIED);
        self.change(notified).map(|was| self.wake(was)).is_some()
    }

    /// Tells the helper to leave; with `for_good`, no other one is accepted.
    pub(super) fn dismiss(&self, for_good: bool) {
        let dismissed = |word: u32| match for_good {
            true => Some(word | CLOSED),
            false => (word & GONE == 0).then_some(word | LEAVING),
        };
        self.change(dismissed).into_iter().for_each(|was| self.wake(was & !NOTIFIED));
    }

    /// Waits until the helper that has to leave has left.
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
