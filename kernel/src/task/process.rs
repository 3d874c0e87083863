//! Processes: their numbers, their families, and how they end.
//!
//! ```text
//!              reserve              the first thread starts           the last thread has left, and
//!    FREE ───────────► RESERVED ───────────────────────────► RUNNING  the space is gone   ──► ZOMBIE
//!      ▲                  │ cancel                                                              │
//!      └──────────────────┴────────────────────── reaped by wait4, or at the end of all ◄──────┘
//! ```
//!
//! A process of its own space has a *supervisor*, a kernel thread that owns the space: it starts the first
//! thread, sleeps until the last one has left, and drops the space (`birth`). For the first process that is
//! the thread that boots. A child of vfork runs in its parent's space and has none: its last thread ends it.
//!
//! The first process adopts orphans. When it ends, all others are ended, and waited for.
//!
//! `FAMILY` (rank 38) guards parents, shared spaces, and every step of a state: as long as it is held, a
//! place in the table has the process that was found there.

use crate::arch::apic::{self, Vector};
use crate::arch::thread::Thread;
use crate::arch::trap::Frame;
use crate::arch::{Core, MACHINE, percpu, spaces, user};
use crate::task::sched;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use interleaf::machine::{Cpu, Machine};
use interleaf::sync::SpinLock;
use interleaf::units::{CpuId, VirtAddr};

/// Most processes.
pub const MAX_PROCESSES: usize = 1024;

const FREE: u32 = 0;
const RESERVED: u32 = 1;
const RUNNING: u32 = 2;
const ZOMBIE: u32 = 3;

/// Set in [`Process::ending`] beside the status.
const ENDING: u32 = 1 << 31;
/// The signal that cannot be handled.
pub const SIGKILL: u32 = 9;

/// A process. Words without a comment are read by anybody, and stale at once.
pub struct Process {
    state: AtomicU32,
    number: AtomicU32,
    /// Number of its parent; 0 for the first process. Changed under `FAMILY`.
    parent: AtomicU32,
    /// 0, or the status that the process ends with, and [`ENDING`]. Set once, by the first that ends it.
    ending: AtomicU32,
    /// Threads that live. The supervisor sleeps on it.
    alive: AtomicU32,
    /// The status of the thread that left last, where nobody has ended the process.
    left_with: AtomicU32,
    /// The place of the process whose space it shares, as a child of vfork, and 1 more; 0 for none. Changed
    /// under `FAMILY`.
    shares_space_of: AtomicU32,
    /// Moves on when a child has ended; its threads in wait4 sleep on it.
    children_ended: AtomicU32,
    /// The handler of SIGSEGV and its restorer. Relaxed: set before the threads that may fault are started,
    /// or by the thread itself.
    handler: AtomicU64,
    restorer: AtomicU64,
}

static PROCESSES: [Process; MAX_PROCESSES] = [const { Process::new() }; MAX_PROCESSES];
static FAMILY: SpinLock<(), Core, 38> = SpinLock::new(());
/// The first process has ended: there are no new ones. Changed under `FAMILY`.
static NO_MORE: AtomicBool = AtomicBool::new(false);
/// The number of the next process or thread.
static NEXT_NUMBER: AtomicU32 = AtomicU32::new(1);

/// How a process ended, as wait4 has it: the exit code in bits 8 to 15, or the signal in bits 0 to 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u32);

impl Status {
    /// Of a process that ends by itself.
    pub fn exited(code: u32) -> Self {
        Self((code & 0xff) << 8)
    }

    /// Of a process that a signal ends.
    pub fn killed(signal: u32) -> Self {
        Self(signal & 0x7f)
    }

    /// One number for both, as shells have it: the exit code, or 128 + the signal.
    pub fn code(self) -> u8 {
        if self.0 & 0x7f == 0 { (self.0 >> 8) as u8 } else { 128 | (self.0 & 0x7f) as u8 }
    }
}

/// The children that wait4 looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Children {
    /// Any of them.
    Any,
    /// The one with this number.
    Number(u32),
}

/// The answer to wait4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaped {
    /// Number and status of one that had ended. Its number is free.
    Ended(u32, Status),
    /// There are children, and none has ended.
    NoneYet,
    /// There is no such child.
    NoChild,
}

/// A number that no process and no thread has had.
fn next_number() -> u32 {
    NEXT_NUMBER.fetch_add(1, Relaxed)
}

/// The process of the running thread.
///
/// # Panics
/// Where a kernel thread asks.
#[inline(always)]
pub fn current() -> &'static Process {
    &PROCESSES[percpu::thread().process.load(Relaxed) as usize]
}

/// The process with this number that runs. Its place may be another's at once.
fn find(number: u32) -> Option<&'static Process> {
    PROCESSES.iter().find(|process| process.is(RUNNING) && process.number() == number)
}

impl Process {
    const fn new() -> Self {
        Self {
            state: AtomicU32::new(FREE),
            number: AtomicU32::new(0),
            parent: AtomicU32::new(0),
            ending: AtomicU32::new(0),
            alive: AtomicU32::new(0),
            left_with: AtomicU32::new(0),
            shares_space_of: AtomicU32::new(0),
            children_ended: AtomicU32::new(0),
            handler: AtomicU64::new(0),
            restorer: AtomicU64::new(0),
        }
    }

    /// A process without threads, child of `parent`. `None` where there are too many, or the first one has
    /// ended.
    pub fn reserve(parent: Option<&Process>) -> Option<&'static Process> {
        let _family = FAMILY.lock();
        if NO_MORE.load(Relaxed) {
            return None;
        }
        let process = PROCESSES.iter().find(|process| process.is(FREE))?;
        process.number.store(next_number(), Relaxed);
        process.parent.store(parent.map_or(0, Process::number), Relaxed);
        process.set_handler(parent.map_or((0, 0), Process::handler));
        let Process { ending, alive, left_with, shares_space_of, children_ended, .. } = process;
        for word in [ending, alive, left_with, shares_space_of, children_ended] {
            word.store(0, Relaxed);
        }
        process.state.store(RESERVED, Release);
        Some(process)
    }

    /// Gives up a process that has not started.
    pub fn cancel(&self) {
        let _family = FAMILY.lock();
        debug_assert!(self.is(RESERVED), "a process that has started is cancelled");
        self.state.store(FREE, Release);
    }

    /// Its number.
    #[inline(always)]
    pub fn number(&self) -> u32 {
        self.number.load(Relaxed)
    }

    /// The number of its parent; 0 for the first process.
    #[inline(always)]
    pub fn parent(&self) -> u32 {
        self.parent.load(Relaxed)
    }

    fn is(&self, state: u32) -> bool {
        self.state.load(Acquire) == state
    }

    fn slot(&self) -> u32 {
        ((&raw const *self).addr() - (&raw const PROCESSES).addr()) as u32 / size_of::<Process>() as u32
    }

    /// The handler of SIGSEGV and its restorer; 0 for none.
    pub fn handler(&self) -> (u64, u64) {
        (self.handler.load(Relaxed), self.restorer.load(Relaxed))
    }

    /// Installs a handler for SIGSEGV and its restorer; 0 for none.
    pub fn set_handler(&self, (handler, restorer): (u64, u64)) {
        self.restorer.store(restorer, Relaxed);
        self.handler.store(handler, Relaxed);
    }

    /// Whether the process ends.
    #[inline(always)]
    pub fn is_ending(&self) -> bool {
        self.ending.load(Acquire) != 0
    }

    /// Makes a thread one of the process, and counts it, before it starts; its number. The first one has the
    /// process's.
    pub fn add_thread(&self, thread: &Thread) -> u32 {
        let is_first = self.alive.fetch_add(1, AcqRel) == 0;
        let number = if is_first { self.number() } else { next_number() };
        thread.number.store(number, Relaxed);
        thread.process.store(self.slot(), Release);
        self.state.store(RUNNING, Release);
        number
    }

    /// The threads of the process.
    fn threads(&self) -> impl Iterator<Item = &'static Thread> {
        let slot = self.slot();
        Thread::all().iter().filter(move |thread| thread.process.load(Acquire) == slot)
    }

    /// As [`add_thread`](Self::add_thread), of the first thread of a process that runs in the space of
    /// `parent`. `None` where that space is about to end.
    pub fn start_sharing(&self, thread: &Thread, parent: &Process) -> Option<u32> {
        let _family = FAMILY.lock();
        let owner = parent.owner();
        if owner.is_ending() || owner.alive.load(Acquire) == 0 {
            return None;
        }
        self.shares_space_of.store(owner.slot() + 1, Release);
        Some(self.add_thread(thread))
    }

    /// The process in whose space it runs: itself, but for a child of vfork.
    fn owner(&self) -> &Process {
        match self.shares_space_of.load(Acquire) {
            0 => self,
            place => &PROCESSES[place as usize - 1],
        }
    }

    /// Ends the process: every thread leaves as soon as it notices, asleep, running or on its way to ring 3.
    /// Children of vfork end with it, because they run in its space.
    pub fn end(&self, status: Status) {
        let family = FAMILY.lock();
        self.end_alone(status);
        let sharing = PROCESSES.iter().filter(|other| other.shares_space_with(self));
        sharing.for_each(|other| other.end_alone(Status::killed(SIGKILL)));
        drop(family);
        let others = (0..MACHINE.nr_cpus()).map(CpuId).filter(|&cpu| cpu != Core::id());
        others.for_each(|cpu| apic::send(percpu::of(cpu).apic_id(), Vector::RESCHED));
    }

    /// Ends the process alone, if nobody has. Whoever calls it holds `FAMILY`, or is a thread of it.
    fn end_alone(&self, status: Status) {
        if self.ending.compare_exchange(0, ENDING | status.0, SeqCst, Acquire).is_err() {
            return;
        }
        for thread in self.threads() {
            thread.exit_pending.store(1, SeqCst);
            sched::wake_thread(thread);
        }
    }

    /// Ends the process that has this place, if it still has this number.
    fn end_numbered(&self, number: u32) {
        let is_there = {
            let _family = FAMILY.lock();
            let is_there = self.is(RUNNING) && self.number() == number;
            if is_there {
                self.end_alone(Status::killed(SIGKILL));
            }
            is_there
        };
        if is_there {
            let others = (0..MACHINE.nr_cpus()).map(CpuId).filter(|&cpu| cpu != Core::id());
            others.for_each(|cpu| apic::send(percpu::of(cpu).apic_id(), Vector::RESCHED));
        }
    }

    /// Ends the running thread, which is one of the process; the last one ends the process, or wakes the
    /// supervisor, which does.
    pub fn leave(&'static self) -> ! {
        let thread = percpu::thread();
        let clear = VirtAddr(thread.clear_tid.load(Relaxed));
        if clear.0 != 0 && user::write(clear, &[0; 4]).is_ok() {
            sched::wake(self.key(clear), 1);
        }
        thread.process.store(Thread::NO_PROCESS, Release);
        thread.exit_pending.store(0, Relaxed);
        let is_supervised = self.shares_space_of.load(Relaxed) == 0;
        spaces::leave_space(|| {
            let was_last = self.alive.fetch_sub(1, AcqRel) == 1;
            if was_last && is_supervised {
                Core::wake(&self.alive, 1);
            } else if was_last {
                self.has_ended();
            }
        })
    }

    /// Waits for the last thread, and for the processes that share the space. The supervisor's.
    pub fn wait_for_all(&self) {
        loop {
            let alive = self.alive.load(Acquire);
            if alive == 0 {
                break;
            }
            Core::sleep(&self.alive, alive);
        }
        // None can come any more: `start_sharing` refuses.
        let sharing = || {
            let _family = FAMILY.lock();
            let other = PROCESSES.iter().find(|other| other.shares_space_with(self))?;
            Some((other, other.number()))
        };
        while let Some((other, number)) = sharing() {
            other.end_numbered(number);
            other.wait_for_end(number, || false);
        }
    }

    /// Whether it runs in the space of `owner`, as a child of vfork.
    fn shares_space_with(&self, owner: &Process) -> bool {
        self.is(RUNNING) && self.shares_space_of.load(Acquire) == owner.slot() + 1
    }

    /// The key on which a thread of the process sleeps for an address of its own: apart from those of other
    /// processes, and from the kernel's addresses, whose upper bits are all set.
    pub fn key(&self, at: VirtAddr) -> usize {
        // At most 1024: the place of the owner stays its own as long as threads run in its space.
        (u64::from(self.owner().slot() + 1) << 48 | at.0) as usize
    }

    /// No thread is left, and its space is gone: what remains is its status, for its parent. The first
    /// process adopts its children.
    pub fn has_ended(&self) {
        let first = PROCESSES[0].number();
        let family = FAMILY.lock();
        let mut has_orphans = false;
        for orphan in PROCESSES.iter().filter(|other| !other.is(FREE) && other.parent() == self.number()) {
            orphan.parent.store(first, Relaxed);
            has_orphans = true;
        }
        let (parent, shared) = (self.parent(), self.shares_space_of.load(Relaxed));
        self.state.store(ZOMBIE, Release);
        drop(family);
        for number in [parent, if has_orphans { first } else { 0 }] {
            if let Some(parent) = find(number) {
                parent.children_ended.fetch_add(1, AcqRel);
                sched::wake(parent.children_ended.as_ptr().addr(), u32::MAX);
            }
        }
        if shared != 0 {
            sched::wake(self.state.as_ptr().addr(), u32::MAX);
        }
    }

    /// Takes a child that has ended out of the table.
    pub fn reap(&self, children: Children) -> Reaped {
        let _family = FAMILY.lock();
        let (me, mut answer) = (self.number(), Reaped::NoChild);
        let has_started = |other: &&Process| other.is(RUNNING) || other.is(ZOMBIE);
        for child in PROCESSES.iter().filter(has_started).filter(|other| other.parent() == me) {
            if let Children::Number(number) = children
                && number != child.number()
            {
                continue;
            }
            if child.is(ZOMBIE) {
                let (number, status) = (child.number(), child.status());
                child.state.store(FREE, Release);
                return Reaped::Ended(number, status);
            }
            answer = Reaped::NoneYet;
        }
        answer
    }

    /// Sleeps until a child ends after `seen` was read of [`nr_children_ended`](Self::nr_children_ended), or
    /// the process itself ends.
    pub fn wait_for_children(&self, seen: u32) {
        let still = || self.children_ended.load(Acquire) == seen && !self.is_ending();
        sched::sleep(self.children_ended.as_ptr().addr(), still);
    }

    /// How many children have ended.
    pub fn nr_children_ended(&self) -> u32 {
        self.children_ended.load(Acquire)
    }

    /// Waits for the end of a process that shares the caller's space, or until the caller `gives_up`.
    /// `number` is the process's, because another one may have its place then.
    pub fn wait_for_end(&self, number: u32, gives_up: impl Fn() -> bool) {
        let runs = || self.number() == number && self.is(RUNNING) && !gives_up();
        while runs() {
            sched::sleep(self.state.as_ptr().addr(), runs);
        }
    }

    /// The status that it ends with, or has ended with.
    pub fn status(&self) -> Status {
        match self.ending.load(Acquire) {
            0 => Status(self.left_with.load(Acquire)),
            ending => Status(ending & !ENDING),
        }
    }

    /// Ends the running thread with an exit code, which is the process's if it leaves last.
    pub fn exit_thread(&'static self, code: u32) -> ! {
        self.left_with.store(Status::exited(code).0, Release);
        self.leave()
    }
}

/// Ends every process but the first, and forgets them all: the first one has ended. None is born meanwhile.
pub fn end_all() {
    let first = &PROCESSES[0];
    let no_more = |is_so| {
        let _family = FAMILY.lock();
        NO_MORE.store(is_so, Relaxed);
        if !is_so {
            first.state.store(FREE, Release);
        }
    };
    no_more(true);
    while PROCESSES[1..].iter().any(|other| !other.is(FREE)) {
        PROCESSES[1..].iter().for_each(|other| other.end_numbered(other.number()));
        while let Reaped::Ended(..) = first.reap(Children::Any) {}
        sched::yield_now();
    }
    no_more(false);
}

/// A thread of a process is about to go back to ring 3, or not.
pub fn before_return_to_user(_: &mut Frame) {
    // Cleared before the look: a process that ends from here on sets it again.
    percpu::thread().exit_pending.swap(0, SeqCst);
    let process = current();
    if process.is_ending() {
        process.leave();
    }
}

/// The program raised an exception that is no page fault.
pub fn exception(frame: &mut Frame) {
    let signal = match frame.vector() {
        0 | 16 | 19 => 8,
        1 | 3 => 5,
        6 => 4,
        17 => 7,
        _ => 11,
    };
    kill(signal, frame, "an exception");
}

/// A signal ends the process.
pub fn kill(signal: u32, frame: &Frame, what: &str) -> ! {
    let process = current();
    crate::println!("process {} ends by signal {signal}: {what}\n{frame}", process.number());
    process.end(Status::killed(signal));
    process.leave()
}
