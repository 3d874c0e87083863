//! Spin locks whose waiters queue, each at a word of its own (MCS): Linux's `qspinlock` and `osq_lock`.

use super::me;
use interleaf::machine::Cpu;
use interleaf::sync::atomic::{AtomicU32, Ordering::*};
use interleaf_lab::machine::sim::Sim;

/// A CPU's place in a queue.
pub struct Place {
    /// The CPU behind, and 1; 0: none yet.
    next: AtomicU32<Sim>,
    /// 1: it is this CPU's turn.
    turn: AtomicU32<Sim>,
}

/// What a CPU waits at. Each is on lines of its own.
#[repr(align(128))]
pub struct Node {
    /// In the queue of writers that spin.
    spinner: Place,
    /// In that of the lock of the list of sleepers.
    list: Place,
    /// 1: the writer was woken.
    pub woken: AtomicU32<Sim>,
    /// 1: the reader was given what it waits for.
    pub granted: AtomicU32<Sim>,
}

impl Place {
    const fn new() -> Self {
        Self { next: AtomicU32::new(0), turn: AtomicU32::new(0) }
    }
}

impl Node {
    /// A CPU that waits for nothing.
    pub fn new() -> Self {
        let word = || AtomicU32::new(0);
        Self { spinner: Place::new(), list: Place::new(), woken: word(), granted: word() }
    }

    /// Its place among the writers that spin.
    pub fn spinner(&self) -> &Place {
        &self.spinner
    }

    /// Its place at the lock of the list of sleepers.
    pub fn list(&self) -> &Place {
        &self.list
    }
}

/// The last CPU in a queue, and 1; 0: the queue is empty.
pub struct Queue {
    last: AtomicU32<Sim>,
    place: fn(&Node) -> &Place,
}

impl Queue {
    /// An empty queue of such places.
    pub const fn new(place: fn(&Node) -> &Place) -> Self {
        Self { last: AtomicU32::new(0), place }
    }

    /// Waits until the calling CPU is first.
    pub fn join(&self, nodes: &[Node]) {
        let own = (self.place)(&nodes[me()]);
        let name = me() as u32 + 1;
        own.next.store(0, Relaxed);
        own.turn.store(0, Relaxed);
        let before = self.last.swap(name, AcqRel);
        if before > 0 {
            (self.place)(&nodes[before as usize - 1]).next.store(name, Release);
            until(|| own.turn.load(Acquire) == 1);
        }
    }

    /// The calling CPU, which is first, leaves.
    pub fn leave(&self, nodes: &[Node]) {
        let own = (self.place)(&nodes[me()]);
        let name = me() as u32 + 1;
        if own.next.load(Acquire) == 0 {
            if self.last.compare_exchange(name, 0, Release, Relaxed).is_ok() {
                return;
            }
            until(|| own.next.load(Acquire) > 0);
        }
        let next = own.next.load(Acquire) as usize - 1;
        (self.place)(&nodes[next]).turn.store(1, Release);
    }

    fn is_empty(&self) -> bool {
        self.last.load(Relaxed) == 0
    }
}

/// A spin lock: a word, and the queue of those that wait for it.
pub struct SpinLock {
    held: AtomicU32<Sim>,
    queue: Queue,
}

impl SpinLock {
    /// A free lock.
    pub const fn new(place: fn(&Node) -> &Place) -> Self {
        Self { held: AtomicU32::new(0), queue: Queue::new(place) }
    }

    /// Calls `f` with the lock held.
    pub fn with<R>(&self, nodes: &[Node], f: impl FnOnce() -> R) -> R {
        let is_taken = || self.held.compare_exchange(0, 1, Acquire, Relaxed).is_ok();
        if !self.queue.is_empty() || !is_taken() {
            self.queue.join(nodes);
            until(|| self.held.load(Relaxed) == 0 && is_taken());
            self.queue.leave(nodes);
        }
        let result = f();
        self.held.store(0, Release);
        result
    }
}

/// Spins until something is so.
pub fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        Sim::relax();
    }
}
