//! Threads and forks together: threads map, write, protect, drop and unmap pages while they fork, and their
//! children do the same in turn.
//!
//! `fork_storm [THREADS] [ROUNDS] [SEED]`. Every thread has pages of its own, knows what they must hold, and
//! writes two counters, the first before the second, on pages that lie far apart:
//!
//! ```text
//!   thread t        first = n     second = n     first = n + 1     second = n + 1   ...
//!   any child       of the same number, or the first is one ahead: never the new second with the old first
//! ```
//!
//! A child checks the counters of all threads and the pages of the thread that forked it, overwrites them,
//! starts threads of its own down to some depth, and ends with a code that its parent expects. Its parent
//! checks that nothing has changed.
#![cfg_attr(metal, no_std, no_main)]

use core::sync::atomic::{AtomicU64, Ordering::*};
use interleaf_programs::dice::{Dice, mix};
use interleaf_programs::say::granted;
use interleaf_programs::sys::{self, Args, Forked, Region, Rights, Shared};
use interleaf_programs::{GOOD, holds, program, say};

program!(begin);

/// Most threads of the first process; each of its descendants starts two.
const MAX_THREADS: usize = 24;
const THREADS_OF_A_CHILD: usize = 2;
/// Generations of children.
const DEPTH: u64 = 2;
/// Pages of a thread's own.
const PAGES: usize = 12;
/// Pages from one counter to the next: more than a table covers.
const APART: usize = 600;
/// Stores to the counters between two steps.
const COUNTS: usize = 4;

/// The pages with the counters: thread `t` has `2t` and `2t + 1`.
static COUNTERS: Shared = Shared::new();
/// Threads that have counters. Relaxed, as all of these: written before the threads that read them are
/// started.
static THREADS: AtomicU64 = AtomicU64::new(0);
static ROUNDS: AtomicU64 = AtomicU64::new(0);
static SEED: AtomicU64 = AtomicU64::new(0);
/// Generations above this process.
static ABOVE: AtomicU64 = AtomicU64::new(0);
/// Descendants so far, of all processes: shared memory.
static MADE: Shared = Shared::new();

fn begin(args: Args) -> u8 {
    let threads = args.number(1, 2 * sys::cpus() + 1).clamp(2, MAX_THREADS);
    ROUNDS.store(args.number(2, 12) as u64, Relaxed);
    SEED.store(args.number(3, 1) as u64, Relaxed);
    THREADS.store(threads as u64, Relaxed);
    COUNTERS.set(granted("mmap", Region::map(2 * threads * APART, Rights::WRITE)));
    MADE.set(granted("mmap", Region::map_shared(threads, Rights::WRITE)));
    storm(threads);
    let made: u64 = (0..threads).map(|thread| MADE.get().read(thread, 0)).sum();
    holds!(made > 0, "nothing was forked");
    say!("fork_storm: {threads} threads, {made} children of theirs, every page held what it must");
    GOOD
}

/// Runs a process's threads to their ends.
fn storm(threads: usize) {
    let started: [_; MAX_THREADS] =
        core::array::from_fn(|index| (index < threads).then(|| granted("clone", sys::spawn(run, index))));
    started.into_iter().flatten().for_each(sys::Thread::join);
    check_counters("the storm is over");
}

fn counter(thread: usize, which: usize) -> u64 {
    COUNTERS.get().read(place(thread, which), 0)
}

/// Where a counter lies: the first one before the second in one thread, behind it in the next, so that the
/// sweep of a fork passes them in either order.
fn place(thread: usize, which: usize) -> usize {
    APART * (2 * thread + (which ^ thread & 1))
}

/// The order in which each thread has stored.
fn check_counters(when: &str) {
    for thread in 0..THREADS.load(Relaxed) as usize {
        // Both orders of loading: memory of a process without other threads does not change.
        let (second, first) = (counter(thread, 1), counter(thread, 0));
        holds!(first == second || first == second + 1, "{when}: thread {thread} has {first} and {second}");
        holds!(second == counter(thread, 1), "{when}: memory of thread {thread} changes");
    }
}

/// One thread.
struct Thread {
    index: usize,
    own: Region,
    holds: [u64; PAGES],
    writable: bool,
    count: u64,
    dice: Dice,
}

fn run(index: usize) {
    let above = ABOVE.load(Relaxed);
    let seed = mix(SEED.load(Relaxed) << 16 | above << 8 | index as u64);
    let mut thread = Thread {
        index,
        own: granted("mmap", Region::map(PAGES, Rights::WRITE)),
        holds: [0; PAGES],
        writable: true,
        count: counter(index, 0),
        dice: Dice::new(seed),
    };
    // A fork may have come between the two stores of the thread that had this number.
    COUNTERS.get().write(place(index, 1), 0, thread.count);
    for round in 0..(ROUNDS.load(Relaxed) >> (2 * above)).max(2) {
        thread.step(round);
        thread.count_up();
    }
    thread.check("at the end");
    granted("munmap", thread.own.unmap());
}

impl Thread {
    fn count_up(&mut self) {
        for _ in 0..COUNTS {
            self.count += 1;
            COUNTERS.get().write(place(self.index, 0), 0, self.count);
            COUNTERS.get().write(place(self.index, 1), 0, self.count);
        }
    }

    fn step(&mut self, round: u64) {
        match self.dice.below(8) {
            0 | 1 => self.fork(round),
            2 => self.protect(),
            3 => self.drop_contents(),
            4 => self.renew(),
            5 => sys::yield_now(),
            _ => self.write(round),
        }
        self.check("after a step");
    }

    /// Makes a child, and waits for it; or two, of which the second is waited for first.
    fn fork(&mut self, round: u64) {
        let forks = 1 + self.dice.below(2);
        let mut children = [None; 2];
        for (nth, child) in children.iter_mut().enumerate().take(forks) {
            let code = 10 + (mix(round << 8 | (self.index as u64) << 1 | nth as u64) % 100) as u8;
            match granted("fork", sys::fork()) {
                Forked::Child => self.run_child(code),
                Forked::Parent(made) => *child = Some((made, code)),
            }
            self.count_up();
        }
        if ABOVE.load(Relaxed) == 0 {
            let made = MADE.get().read(self.index, 0);
            MADE.get().write(self.index, 0, made + forks as u64);
        }
        for (child, code) in children.into_iter().rev().flatten() {
            let ended = granted("wait4", sys::wait(Some(child)));
            holds!(ended == (child, u32::from(code) << 8), "{child:?} should end with {code}: {ended:?}");
        }
    }

    /// The child: the only thread of its process, on a copy of the stack.
    fn run_child(&mut self, code: u8) -> ! {
        check_counters("a child");
        self.check("in a child");
        self.count_up();
        if self.writable {
            (0..PAGES).for_each(|page| self.put(page, mix(code.into())));
        }
        self.check("in a child, afterwards");
        let above = ABOVE.load(Relaxed) + 1;
        if above < DEPTH {
            ABOVE.store(above, Relaxed);
            storm(THREADS_OF_A_CHILD);
            self.check("in a child, at its end");
            // Threads that were joined may not have left yet: the code of `exit` would be that of the last.
            sys::exit_group(code)
        }
        self.renew();
        self.write(above);
        self.check("in a child, at its end");
        sys::exit(code.into())
    }

    fn put(&mut self, page: usize, value: u64) {
        self.own.write(page, page, value);
        self.holds[page] = value;
    }

    fn write(&mut self, round: u64) {
        if self.writable {
            let first = self.dice.below(PAGES);
            (first..PAGES).for_each(|page| self.put(page, mix(round << 8 | page as u64)));
        }
    }

    /// Removes the right to write, or restores it.
    fn protect(&mut self) {
        self.writable = !self.writable;
        let rights = if self.writable { Rights::WRITE } else { Rights::READ };
        granted("mprotect", self.own.protect(rights));
    }

    fn drop_contents(&mut self) {
        let (first, count) = (self.dice.below(PAGES), 1);
        granted("madvise", self.own.part(first, count).dont_need());
        self.holds[first] = 0;
    }

    fn renew(&mut self) {
        granted("munmap", self.own.unmap());
        self.own = granted("mmap", Region::map(PAGES, Rights::WRITE));
        (self.holds, self.writable) = ([0; PAGES], true);
    }

    fn check(&self, when: &str) {
        for (page, expected) in self.holds.iter().enumerate() {
            let found = self.own.read(page, page);
            let thread = self.index;
            holds!(found == *expected, "{when}: thread {thread}, page {page}: {found:#x}, not {expected:#x}");
        }
    }
}
