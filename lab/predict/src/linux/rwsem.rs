//! Linux's `rw_semaphore`: readers that are counted in one word, writers that spin while the owner runs, a
//! list of sleepers, and the handoff to one that has slept too long.
//!
//! | bits of `count` | meaning |
//! |---|---|
//! | 0 | a writer holds it |
//! | 1 | the list is not empty |
//! | 2 | the first of the list is to get it next |
//! | 8 and above | readers |
//!
//! `owner` is the last holder: every reader writes it too.

use super::me;
use super::queued::{Node, Queue, SpinLock};
use interleaf::machine::Cpu;
use interleaf::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use interleaf_lab::machine::sim::{Ps, Sim, now_ps};
use std::cell::RefCell;
use std::collections::VecDeque;

const WRITER: u64 = 1;
const WAITERS: u64 = 1 << 1;
const HANDOFF: u64 = 1 << 2;
const READER: u64 = 1 << 8;
const READERS: u64 = !(READER - 1);
/// With these a reader is not let in.
const NO_READER: u64 = WRITER | WAITERS | HANDOFF;

/// Bits of `owner`: readers hold it; writers do not spin for it any more.
const OF_READERS: u64 = 1;
const NO_SPINNING: u64 = 2;
const FLAGS: u64 = OF_READERS | NO_SPINNING;

/// A sleeper that has slept for so long asks for the handoff.
const PATIENCE: Ps = 4_000_000_000;
/// A writer spins for readers for half of this, and half a microsecond more for each of up to 30 readers.
const SPINS_FOR_READERS: Ps = 20_000_000;

/// The words, on one line; the number of the process's writers lies beside them.
#[repr(C, align(128))]
struct Words {
    count: AtomicU64<Sim>,
    owner: AtomicU64<Sim>,
    spinners: Queue,
    list_lock: SpinLock,
    sequence: AtomicU32<Sim>,
}

/// The semaphore.
pub struct Rwsem {
    words: Words,
    /// Changed with `list_lock` held; never borrowed across an access, where another CPU may go on.
    list: RefCell<VecDeque<Sleeper>>,
}

#[derive(Clone, Copy)]
struct Sleeper {
    cpu: usize,
    is_writer: bool,
    since: Ps,
    /// The handoff is to this one.
    is_next: bool,
}

/// Which sleepers are woken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wake {
    /// The first, or readers.
    Any,
    /// Readers, which share it with others.
    Readers,
    /// Readers, by one that holds it.
    ByReader,
}

impl Rwsem {
    /// Free.
    pub fn new() -> Self {
        let words = Words {
            count: AtomicU64::new(0),
            owner: AtomicU64::new(0),
            spinners: Queue::new(Node::spinner),
            list_lock: SpinLock::new(Node::list),
            sequence: AtomicU32::new(1),
        };
        Self { words, list: RefCell::default() }
    }

    /// The number of the writer that has it now, or will have it next: for mmap_lock, whose writers count.
    pub fn sequence(&self) -> &AtomicU32<Sim> {
        &self.words.sequence
    }

    /// Takes it to read if that is possible at once.
    pub fn try_read(&self) -> bool {
        let taken = |count| (count & NO_READER == 0).then_some(count + READER);
        let is_taken = self.words.count.update(Acquire, Relaxed, taken).is_ok();
        if is_taken {
            self.set_owner_reader(me());
        }
        is_taken
    }

    /// Takes it to read, as a fault does: at once, or else it waits.
    pub fn read(&self, nodes: &[Node]) {
        if self.try_read() {
            return;
        }
        let count = self.words.count.fetch_add(READER, Acquire) + READER;
        let is_shared = self.words.owner.load(Relaxed) & OF_READERS != 0 && count >= 2 * READER;
        let must_queue = count & (WRITER | HANDOFF) != 0 || is_shared && count & WAITERS != 0;
        if must_queue {
            return self.queue_to_read(nodes);
        }
        self.set_owner_reader(me());
        if count & WAITERS != 0 && count < 2 * READER {
            self.wake(nodes, Wake::ByReader);
        }
    }

    /// Releases it.
    pub fn unread(&self, nodes: &[Node]) {
        let count = self.words.count.fetch_sub(READER, Release) - READER;
        if count & (WRITER | READERS | WAITERS) == WAITERS {
            self.words.owner.store(self.words.owner.load(Relaxed) & !NO_SPINNING, Relaxed);
            self.wake(nodes, Wake::Any);
        }
    }

    /// Takes it to write.
    pub fn write(&self, nodes: &[Node]) {
        if self.words.count.compare_exchange(0, WRITER, Acquire, Relaxed).is_ok() {
            self.words.owner.store(name(me()), Relaxed);
        } else if !self.spin_to_write(nodes) {
            self.queue_to_write(nodes);
        }
    }

    /// Releases it.
    pub fn unwrite(&self, nodes: &[Node]) {
        self.words.owner.store(0, Relaxed);
        if self.words.count.fetch_sub(WRITER, Release) & WAITERS != 0 {
            self.wake(nodes, Wake::Any);
        }
    }

    fn set_owner_reader(&self, cpu: usize) {
        let kept = self.words.owner.load(Relaxed) & NO_SPINNING;
        self.words.owner.store(name(cpu) | OF_READERS | kept, Relaxed);
    }

    fn queue_to_read(&self, nodes: &[Node]) {
        let own = &nodes[me()].granted;
        let woken = self.words.list_lock.with(nodes, || {
            let mut change = READER.wrapping_neg();
            if self.list.borrow().is_empty() {
                if self.words.count.load(Acquire) & WRITER == 0 {
                    self.set_owner_reader(me());
                    return None;
                }
                change = change.wrapping_add(WAITERS);
            }
            own.store(0, Relaxed);
            self.push(false);
            let count = self.words.count.fetch_add(change, AcqRel).wrapping_add(change);
            Some(self.released_meanwhile(count))
        });
        let Some(woken) = woken else { return };
        wake_all(nodes, woken);
        while own.load(Acquire) == 0 {
            own.sleep_while(0);
        }
    }

    /// Writers that find another at work spin, one at a time, as long as that runs; and a while for readers.
    fn spin_to_write(&self, nodes: &[Node]) -> bool {
        if self.words.owner.load(Relaxed) & NO_SPINNING != 0 {
            return false;
        }
        self.words.spinners.join(nodes);
        let mut until = None;
        let is_taken = loop {
            let owner = self.await_another_owner();
            if owner & NO_SPINNING != 0 {
                break false;
            }
            let taken = |count| (count & (WRITER | READERS | HANDOFF) == 0).then_some(count | WRITER);
            if self.words.count.update(Acquire, Relaxed, taken).is_ok() {
                self.words.owner.store(name(me()), Relaxed);
                break true;
            }
            if owner & OF_READERS != 0 {
                let readers = (self.words.count.load(Relaxed) / READER).min(30);
                let end = *until.get_or_insert_with(|| now_ps() + SPINS_FOR_READERS / 2 + readers * 500_000);
                if now_ps() > end {
                    self.words.owner.store(owner | NO_SPINNING, Relaxed);
                    break false;
                }
            }
            Sim::relax();
        };
        self.words.spinners.leave(nodes);
        is_taken
    }

    /// The owner, once that is no longer the writer that it was.
    fn await_another_owner(&self) -> u64 {
        let first = self.words.owner.load(Relaxed);
        let mut owner = first;
        while owner == first && owner != 0 && owner & FLAGS == 0 {
            Sim::relax();
            owner = self.words.owner.load(Relaxed);
        }
        owner
    }

    fn queue_to_write(&self, nodes: &[Node]) {
        let own = &nodes[me()].woken;
        let woken = self.words.list_lock.with(nodes, || {
            self.push(true);
            if self.list.borrow().len() > 1 {
                return self.released_meanwhile(self.words.count.load(Relaxed));
            }
            self.words.count.fetch_or(WAITERS, Relaxed);
            Vec::new()
        });
        wake_all(nodes, woken);
        loop {
            // A wake-up from here on ends the sleep below.
            own.store(0, Relaxed);
            if self.words.list_lock.with(nodes, || self.take_from_list()) {
                return;
            }
            if self.is_next() && self.await_another_owner() == 0 {
                continue;
            }
            while own.load(Acquire) == 0 {
                own.sleep_while(0);
            }
        }
    }

    /// A writer in the list takes it, if it is free and not to be handed to another.
    fn take_from_list(&self) -> bool {
        let (own, first, len) = self.look_at_list();
        let mut count = self.words.count.load(Relaxed);
        loop {
            let is_handed = count & HANDOFF != 0;
            if is_handed && first.is_next && first.cpu != own.cpu {
                return false;
            }
            let is_free = count & (WRITER | READERS) == 0;
            if !is_free && (is_handed || now_ps() < own.since + PATIENCE) {
                return false;
            }
            let rest = if len == 1 { count & !WAITERS } else { count };
            let next = if is_free { rest & !HANDOFF | WRITER } else { count | HANDOFF };
            match self.words.count.compare_exchange(count, next, Acquire, Relaxed) {
                Ok(_) if is_free => break,
                Ok(_) => {
                    self.list.borrow_mut()[0].is_next = true;
                    return false;
                }
                Err(found) => count = found,
            }
        }
        self.list.borrow_mut().retain(|sleeper| sleeper.cpu != own.cpu);
        self.words.owner.store(name(own.cpu), Relaxed);
        true
    }

    /// This CPU in the list, the first one, and how many there are.
    fn look_at_list(&self) -> (Sleeper, Sleeper, usize) {
        let (me, list) = (me(), self.list.borrow());
        let own = list.iter().find(|sleeper| sleeper.cpu == me).expect("it is in the list");
        (*own, list[0], list.len())
    }

    fn is_next(&self) -> bool {
        let (own, first, _) = self.look_at_list();
        own.cpu == first.cpu && first.is_next
    }

    fn push(&self, is_writer: bool) {
        let sleeper = Sleeper { cpu: me(), is_writer, since: now_ps(), is_next: false };
        self.list.borrow_mut().push_back(sleeper);
    }

    /// The list's lock is held; `count` was read then. What to wake, where no writer holds it any more.
    fn released_meanwhile(&self, count: u64) -> Vec<Sleeper> {
        match (count & WRITER, count & READERS) {
            (0, 0) => self.chosen(Wake::Any),
            (0, _) => self.chosen(Wake::Readers),
            _ => Vec::new(),
        }
    }

    fn wake(&self, nodes: &[Node], wake: Wake) {
        let chosen = self.words.list_lock.with(nodes, || self.chosen(wake));
        wake_all(nodes, chosen);
    }

    /// The list's lock is held: what to wake. Readers are given the semaphore, all that sleep; a writer has
    /// to take it.
    fn chosen(&self, wake: Wake) -> Vec<Sleeper> {
        let Some(first) = self.list.borrow().front().copied() else { return Vec::new() };
        if first.is_writer {
            return if wake == Wake::Any { vec![first] } else { Vec::new() };
        }
        let mut given = 0;
        if wake != Wake::ByReader {
            given = READER;
            let was = self.words.count.fetch_add(READER, AcqRel);
            if was & WRITER != 0 {
                let is_impatient = was & HANDOFF == 0 && now_ps() > first.since + PATIENCE;
                let handoff = if is_impatient { HANDOFF } else { 0 };
                self.words.count.fetch_add(handoff.wrapping_sub(READER), AcqRel);
                return Vec::new();
            }
            self.set_owner_reader(first.cpu);
        }
        let mut list = self.list.borrow_mut();
        let readers: Vec<_> = list.iter().filter(|sleeper| !sleeper.is_writer).copied().collect();
        list.retain(|sleeper| sleeper.is_writer);
        let is_empty = list.is_empty();
        drop(list);
        let count = self.words.count.load(Relaxed);
        let gone = count & HANDOFF | if is_empty { WAITERS } else { 0 };
        let more = (readers.len() as u64 * READER).wrapping_sub(given);
        self.words.count.fetch_add(more.wrapping_sub(gone), AcqRel);
        readers
    }
}

/// What `owner` says of a CPU.
const fn name(cpu: usize) -> u64 {
    (cpu as u64 + 1) << 2
}

fn wake_all(nodes: &[Node], sleepers: Vec<Sleeper>) {
    for Sleeper { cpu, is_writer, .. } in sleepers {
        let word = if is_writer { &nodes[cpu].woken } else { &nodes[cpu].granted };
        word.store(1, Release);
        word.wake(1);
    }
}
