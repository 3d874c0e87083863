//! Waiting for the lock, and granting it to threads that wait.

#![forbid(unsafe_code)]

use super::word::{OPEN, READER_WAITS, READERS, Successor, WRITER, WRITER_WAITS};
use super::word::{held_by_readers, held_by_waiter, successor};
use super::word::{taken_by_late_reader, taken_by_writer};
use super::{AtomicU32, RwLock, TICKET_WORDS};
use crate::machine::Cpu;
use crate::sync::atomic::Ordering::*;

/// Times that a waiter looks before it sleeps: about as long as waking a thread takes. A model looks once.
const SPINS: u32 = if cfg!(loom) { 1 } else { 128 };

/// Bit 0 of a word that threads sleep on: one sleeps, or is about to.
const ASLEEP: u32 = 1;
/// What is added to such a word for each wake-up.
const WAKE_UP: u32 = 2;

/// The threads that wait.
pub(super) struct Queue {
    /// Readers; granted together.
    nr_readers: u32,
    /// The ticket of the next writer that waits.
    next_ticket: u32,
    /// Writers that have passed the one that waits longest.
    nr_passes: u32,
    /// The writer that waits longest was woken, and has not got the lock for as long as it spins.
    is_first_late: bool,
    /// Writers that took the lock while a thread waited, or were granted it.
    nr_writers_served: u32,
    /// `nr_writers_served` when the reader that waits longest began to wait.
    served_at_first_reader: u32,
    /// [`LongestWaits::writers_before_reader`](super::LongestWaits).
    pub(super) most_writers: u32,
    /// [`LongestWaits::writers_past_writer`](super::LongestWaits).
    pub(super) most_passes: u32,
}

impl Queue {
    pub(super) const fn new() -> Self {
        Self {
            nr_readers: 0,
            next_ticket: 0,
            nr_passes: 0,
            is_first_late: false,
            nr_writers_served: 0,
            served_at_first_reader: 0,
            most_writers: 0,
            most_passes: 0,
        }
    }

    /// A writer has taken the lock while others waited.
    fn note_passed(&mut self) {
        self.nr_writers_served = self.nr_writers_served.wrapping_add(1);
        self.nr_passes += 1;
        self.most_passes = self.most_passes.max(self.nr_passes);
    }
}

impl<C: Cpu, const RANK: u8> RwLock<C, RANK> {
    /// Takes the lock, or sets `waiting` in the word. The spin lock is held. Returns the word before, if the
    /// lock was taken.
    fn take_or_wait(&self, taken: fn(u32) -> Option<u32>, waiting: u32) -> Option<u32> {
        let next = |word| Some(taken(word).unwrap_or(word | waiting));
        self.word.update(Acquire, Relaxed, next).ok().filter(|&word| taken(word).is_some())
    }

    #[cold]
    #[inline(never)]
    pub(super) fn read_slow(&self) {
        let mut queue = self.queue.lock();
        // Readers alone keep out readers only where guards were forgotten.
        assert!(self.word.load(Relaxed) & READERS != READERS, "a lock has too many readers");
        if let Some(word) = self.take_or_wait(taken_by_late_reader, READER_WAITS) {
            if word & OPEN != 0 {
                // No thread waits for this phase. Writers count it.
                self.reader_phase.fetch_add(WAKE_UP, Relaxed);
            }
            return;
        }
        if queue.nr_readers == 0 {
            queue.served_at_first_reader = queue.nr_writers_served;
        }
        queue.nr_readers += 1;
        let (phase, nr_served) = (self.reader_phase.load(Relaxed) & !ASLEEP, queue.nr_writers_served);
        drop(queue);
        self.await_phase(phase);
        debug_assert!(
            self.queue.lock().nr_writers_served.wrapping_sub(nr_served) <= 1,
            "a reader waits for at most one writer"
        );
    }

    /// Waits until the phase of readers is another than `phase`.
    fn await_phase(&self, phase: u32) {
        let has_begun = |now: u32| now & !ASLEEP != phase;
        let mut left = SPINS;
        while left > 0 {
            if has_begun(self.reader_phase.load(Acquire)) {
                return;
            }
            left -= C::spin(left);
        }
        loop {
            // In a later phase it only wakes a thread that does not sleep.
            let now = self.reader_phase.fetch_or(ASLEEP, Acquire);
            if has_begun(now) {
                return;
            }
            self.reader_phase.sleep_while(now | ASLEEP);
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn write_slow(&self) {
        let mut queue = self.queue.lock();
        if let Some(word) = self.take_or_wait(taken_by_writer, WRITER_WAITS) {
            if word & OPEN != 0 {
                queue.note_passed();
            }
            return;
        }
        let ticket = queue.next_ticket;
        queue.next_ticket = ticket.wrapping_add(1);
        let nr_ahead = ticket.wrapping_sub(self.served.load(Relaxed));
        let phase = self.reader_phase.load(Relaxed) & !ASLEEP;
        drop(queue);
        self.await_turn(ticket);
        let phases = (self.reader_phase.load(Relaxed) & !ASLEEP).wrapping_sub(phase) / WAKE_UP;
        let beyond_ahead = phases.saturating_sub(nr_ahead);
        if beyond_ahead > self.most_phases.load(Relaxed) {
            self.most_phases.store(beyond_ahead, Relaxed);
        }
        debug_assert!(
            beyond_ahead <= 1,
            "a writer waits for one phase of readers for each writer ahead, and one more"
        );
    }

    /// Waits until the writer with this ticket holds the lock.
    fn await_turn(&self, ticket: u32) {
        let (mut nr_spins, mut was_woken) = (0, false);
        loop {
            match self.served.load(Acquire).wrapping_sub(ticket) {
                // It is first in the queue.
                0 if self.word.load(Relaxed) & OPEN != 0 && self.try_take_open(ticket) => return,
                // The lock is not granted to a later one before this one has released it.
                1 => return,
                _ => {}
            }
            if nr_spins < SPINS {
                nr_spins += C::spin(SPINS - nr_spins);
            } else if self.take_or_sleep(ticket, was_woken) {
                return;
            } else {
                (nr_spins, was_woken) = (0, true);
            }
        }
    }

    /// Takes the lock if it is open and no waiter is ahead. Returns whether it was taken.
    fn try_take_open(&self, ticket: u32) -> bool {
        let mut queue = self.queue.lock();
        self.is_first_and_open(ticket) && {
            self.give_to_first_writer(&mut queue);
            true
        }
    }

    fn is_first_and_open(&self, ticket: u32) -> bool {
        self.served.load(Relaxed) == ticket && self.word.load(Relaxed) & OPEN != 0
    }

    /// Sleeps, unless the writer with this ticket holds the lock or can take it. Returns whether it holds it.
    /// One that is first, and was woken, has come too late: it is granted the lock next, and spins once more.
    fn take_or_sleep(&self, ticket: u32, was_woken: bool) -> bool {
        let mut queue = self.queue.lock();
        if self.is_first_and_open(ticket) {
            self.give_to_first_writer(&mut queue);
        }
        let served = self.served.load(Relaxed);
        if served.wrapping_sub(ticket) == 1 {
            return true;
        }
        if was_woken && served == ticket && !queue.is_first_late {
            queue.is_first_late = true;
            return false;
        }
        let sleepers = self.sleepers_of(ticket);
        let asleep = sleepers.load(Relaxed) | ASLEEP;
        sleepers.store(asleep, Relaxed);
        drop(queue);
        sleepers.sleep_while(asleep);
        false
    }

    /// A writer that waits and never runs.
    #[cfg(all(test, not(loom)))]
    pub(super) fn add_waiting_writer(&self) {
        let mut queue = self.queue.lock();
        assert!(self.take_or_wait(taken_by_writer, WRITER_WAITS).is_none(), "the lock is free");
        queue.next_ticket += 1;
    }

    fn sleepers_of(&self, ticket: u32) -> &AtomicU32<C> {
        &self.sleepers[ticket as usize % TICKET_WORDS]
    }

    /// The last reader has gone, and a writer waits: grants it the lock.
    #[cold]
    #[inline(never)]
    pub(super) fn end_reader_phase(&self) {
        let mut queue = self.queue.lock();
        let to_wake = if mutant!("rwlock.opened-after-readers") && self.word.load(Relaxed) & READER_WAITS == 0
        {
            self.open()
        } else {
            self.grant_writer(&mut queue)
        };
        drop(queue);
        wake_all(to_wake);
    }

    /// The writer goes, and a thread waits: grants the lock, or opens it.
    #[cold]
    #[inline(never)]
    pub(super) fn end_writer_phase(&self) {
        let mut queue = self.queue.lock();
        let word = self.word.load(Relaxed);
        debug_assert!(word & WRITER != 0 && word & (READER_WAITS | WRITER_WAITS) != 0, "{word:#x}");
        let to_wake = match successor(word, queue.nr_passes, queue.is_first_late) {
            Successor::Readers => self.grant_readers(&mut queue, 0),
            Successor::FirstWriter => self.grant_writer(&mut queue),
            Successor::Anybody => self.open(),
        };
        drop(queue);
        wake_all(to_wake);
    }

    /// Lets any thread take the lock, which is free; only writers wait. Returns the word to wake.
    fn open(&self) -> Option<&AtomicU32<C>> {
        self.word.store(OPEN | WRITER_WAITS, Release);
        self.first_sleeper()
    }

    /// The writer becomes a reader, and a thread waits: grants the lock to all readers that wait.
    #[cold]
    #[inline(never)]
    pub(super) fn let_readers_in(&self) {
        let mut queue = self.queue.lock();
        let to_wake = self.grant_readers(&mut queue, 1);
        drop(queue);
        wake_all(to_wake);
    }

    /// Makes the waiting readers holders of the lock, beside `nr_holding` that the writer leaves. Returns the
    /// word to wake.
    fn grant_readers(&self, queue: &mut Queue, nr_holding: u32) -> Option<&AtomicU32<C>> {
        let nr_readers = core::mem::take(&mut queue.nr_readers);
        // A writer holds the lock and a waiting bit is set: the word changes under the spin lock only.
        let word = self.word.load(Relaxed);
        self.word.store(held_by_readers(word, nr_readers + nr_holding), Release);
        if nr_readers == 0 {
            return None;
        }
        let writers = queue.nr_writers_served.wrapping_sub(queue.served_at_first_reader);
        queue.most_writers = queue.most_writers.max(writers);
        let next = |phase: u32| Some((phase & !ASLEEP).wrapping_add(WAKE_UP));
        let before = self.reader_phase.update(Release, Relaxed, next);
        (before.unwrap_or(0) & ASLEEP != 0).then_some(&self.reader_phase)
    }

    /// Makes the writer that waits longest the holder. No reader holds the lock. Returns the word to wake.
    fn grant_writer(&self, queue: &mut Queue) -> Option<&AtomicU32<C>> {
        let to_wake = self.first_sleeper();
        self.give_to_first_writer(queue);
        to_wake
    }

    /// The lock, which no other thread can take now, is the writer's that waits longest.
    fn give_to_first_writer(&self, queue: &mut Queue) {
        let next = self.served.load(Relaxed).wrapping_add(1);
        // Acquire: what readers did before they released the lock. Nothing changes the word meanwhile: the
        // lock is open, or no thread but the caller holds it, and the spin lock is held.
        let order = if mutant!("rwlock.granted-without-acquire") { Relaxed } else { Acquire };
        let word = self.word.load(order);
        debug_assert!(word & (WRITER_WAITS | READERS) == WRITER_WAITS, "{word:#x}");
        self.word.store(held_by_waiter(word, next != queue.next_ticket), Relaxed);
        (queue.nr_passes, queue.is_first_late) = (0, false);
        queue.nr_writers_served = queue.nr_writers_served.wrapping_add(1);
        self.served.store(next, Release);
    }

    /// The word of the writer that waits longest, to be woken once the spin lock is released; `None` if it is
    /// awake, or was woken and has not slept since.
    fn first_sleeper(&self) -> Option<&AtomicU32<C>> {
        let sleepers = self.sleepers_of(self.served.load(Relaxed));
        let word = sleepers.load(Relaxed);
        if word & ASLEEP == 0 {
            return None;
        }
        let woken = if mutant!("rwlock.woken-stays-asleep") { word } else { word - ASLEEP + WAKE_UP };
        sleepers.store(woken, Relaxed);
        Some(sleepers)
    }
}

fn wake_all<C: Cpu>(word: Option<&AtomicU32<C>>) {
    if let Some(word) = word {
        word.wake(u32::MAX);
    }
}
