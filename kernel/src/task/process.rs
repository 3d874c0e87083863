//! Processes: an element of a static table for each, with its state, its threads and its end.
//!
//! ```text
//!              reserve              the first thread starts           the last thread has left, and
//!    FREE ───────────► RESERVED ───────────────────────────► RUNNING  the space is gone   ──► ZOMBIE
//!      ▲                  │ cancel                                                              │
//!      └──────────────────┴────────────────────── reaped by wait4, or at the end of all ◄──────┘
//! ```
//!
//! Each thread has a handle of the space that it runs in, and drops it before it leaves the process. So when
//! the last thread leaves, the space has ended, unless others run in it: a child of vfork has its parent's,
//! and either of them may end first. The thread that boots waits for the end of the first process.
//!
//! `FAMILY` (rank 38) guards parents and every step of a state: as long as it is held, an element of the
//! table has the process that was found there. `family` holds the steps in which one process concerns
//! another.

use crate::arch::thread::Thread;
use crate::arch::trap::Frame;
use crate::arch::{Core, percpu, spaces, user};
use crate::memory;
use crate::task::files::OpenFiles;
use crate::task::khugepaged;
use crate::task::resident::ResidentPeak;
use crate::task::sched::{self, WaitKey};
use crate::task::signal::Actions;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*, fence};
use interleaf::machine::Cpu;
use interleaf::space::SpaceId;
use interleaf::sync::{SpinGuard, SpinLock};
use interleaf::units::VirtAddr;

/// Most processes.
pub const MAX_PROCESSES: usize = 1024;

pub(super) const FREE: u32 = 0;
pub(super) const RESERVED: u32 = 1;
pub(super) const RUNNING: u32 = 2;
pub(super) const ZOMBIE: u32 = 3;

/// Set in [`Process::ending`] beside the status.
const ENDING: u32 = 1 << 31;

/// A process. Words without a comment are read by any thread, and stale at once.
pub struct Process {
    /// Stored with release, under `FAMILY`. The loads in [`is`](Self::is) acquire: a thread that sees a state
    /// sees the words that were written before that step.
    state: AtomicU32,
    /// Written before the state becomes RESERVED.
    pub(super) number: AtomicU32,
    /// Number of its parent; 0 for the first process. Changed under `FAMILY`.
    pub(super) parent: AtomicU32,
    /// 0, or the status that the process ends with, and [`ENDING`]. Set once, under `FAMILY`. The exchange
    /// pairs with the acquiring loads of [`is_ending`](Self::is_ending).
    pub(super) ending: AtomicU32,
    /// Threads that live. The thread that boots sleeps on that of the first process. The decrement of a
    /// thread that leaves releases what the thread did; the thread that leaves last acquires it.
    pub(super) alive: AtomicU32,
    /// The status of the thread that left last, where nothing else has ended the process, as Linux has it
    /// since 5.18. The store is ordered before the thread's decrement of `alive`.
    pub(super) left_with: AtomicU32,
    /// Incremented when a child has ended; the process's threads in wait4 sleep on it. The increment releases
    /// the child's ZOMBIE to the acquiring load before `reap`.
    pub(super) children_ended: AtomicU32,
    /// The number of its space; stale once it has ended. Relaxed: a thread that looks it up may find no
    /// space.
    space: AtomicU64,
}

/// What a process has that its calls and faults seldom need, by its place in the table: the table's elements
/// stay small.
struct Account {
    /// Its resident memory, as far as it was counted.
    memory: ResidentPeak,
    /// Its open files.
    files: OpenFiles,
    /// What it does about signals.
    actions: Actions,
}

impl Account {
    const fn new() -> Self {
        Self { memory: ResidentPeak::new(), files: OpenFiles::new(), actions: Actions::new() }
    }
}

static ACCOUNTS: [Account; MAX_PROCESSES] = [const { Account::new() }; MAX_PROCESSES];

/// What `FAMILY` guards beside the words of processes that name it.
pub struct Family {
    /// The first process has ended: there are no new ones.
    pub(super) is_closed: bool,
}

/// `FAMILY` held.
pub type FamilyGuard = SpinGuard<'static, Family, Core>;

pub(super) static PROCESSES: [Process; MAX_PROCESSES] = [const { Process::new() }; MAX_PROCESSES];
pub(super) static FAMILY: SpinLock<Family, Core, 38> = SpinLock::new(Family { is_closed: false });
/// The number of the next process or thread. Relaxed: only the number counts.
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

/// A number that no process and no thread has had.
pub(super) fn next_number() -> u32 {
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

impl Process {
    const fn new() -> Self {
        Self {
            state: AtomicU32::new(FREE),
            number: AtomicU32::new(0),
            parent: AtomicU32::new(0),
            ending: AtomicU32::new(0),
            alive: AtomicU32::new(0),
            left_with: AtomicU32::new(0),
            children_ended: AtomicU32::new(0),
            space: AtomicU64::new(0),
        }
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

    /// Whether it is in a state. Acquire: pairs with [`step`](Self::step).
    pub(super) fn is(&self, state: u32) -> bool {
        self.state.load(Acquire) == state
    }

    /// A step of the state. Release: pairs with [`is`](Self::is).
    pub(super) fn step(&self, to: u32, _family: &FamilyGuard) {
        self.state.store(to, Release);
    }

    /// The address that threads sleep on which wait for a step of the state.
    pub(super) fn state_address(&self) -> usize {
        self.state.as_ptr().addr()
    }

    pub(super) fn slot(&self) -> u32 {
        ((&raw const *self).addr() - (&raw const PROCESSES).addr()) as u32 / size_of::<Process>() as u32
    }

    /// Its open files.
    pub fn files(&self) -> &'static OpenFiles {
        &ACCOUNTS[self.slot() as usize].files
    }

    /// What it does about signals.
    pub fn actions(&self) -> &'static Actions {
        &ACCOUNTS[self.slot() as usize].actions
    }

    /// The number of its space; stale at once. `None` where it does not run.
    pub(super) fn space_racy(&self) -> Option<SpaceId> {
        let id = SpaceId(self.space.load(Relaxed));
        self.is(RUNNING).then_some(id)
    }

    /// Notes the space that its first thread will run in.
    pub(super) fn set_space(&self, id: SpaceId) {
        self.space.store(id.0, Relaxed);
    }

    /// Its resident memory, as far as it was counted.
    pub(super) fn memory(&self) -> &'static ResidentPeak {
        &ACCOUNTS[self.slot() as usize].memory
    }

    /// Whether the process ends. Acquire: pairs with the exchange in `end_alone`; a thread that sees the end
    /// sees its status.
    #[inline(always)]
    pub fn is_ending(&self) -> bool {
        self.ending.load(Acquire) != 0
    }

    /// Makes a thread the first of the process, before it starts; its number, which is the process's.
    pub fn add_first_thread(&self, thread: &Thread, family: &FamilyGuard) -> u32 {
        debug_assert!(self.is(RESERVED), "a first thread of a process that has threads");
        let number = self.number();
        self.count_thread(thread, number);
        self.step(RUNNING, family);
        number
    }

    /// Makes another thread one of the process, before it starts; its number. The caller is a thread of the
    /// process, and asks then whether the process [ends](Self::is_ending).
    pub fn add_thread(&self, thread: &Thread) -> u32 {
        let number = next_number();
        self.count_thread(thread, number);
        number
    }

    fn count_thread(&self, thread: &Thread, number: u32) {
        self.alive.fetch_add(1, AcqRel);
        thread.number.store(number, Relaxed);
        // Release: pairs with the loads in `threads`, which then find the number.
        thread.process.store(self.slot(), Release);
        // Pairs with the fence in `end_alone`: either that one finds the thread, or the thread that starts it
        // finds the end.
        fence(SeqCst);
    }

    /// The threads of the process.
    fn threads(&self) -> impl Iterator<Item = &'static Thread> {
        let slot = self.slot();
        Thread::all().iter().filter(move |thread| thread.process.load(Acquire) == slot)
    }

    /// Ends the process: every thread leaves as soon as it notices, asleep, running or on its way to ring 3.
    pub fn end(&self, status: Status) {
        let family = FAMILY.lock();
        self.end_alone(status, &family);
        drop(family);
        sched::interrupt_others();
    }

    /// Ends the process alone, unless it ends already. The caller interrupts the other CPUs then.
    pub(super) fn end_alone(&self, status: Status, _family: &FamilyGuard) {
        if self.ending.compare_exchange(0, ENDING | status.0, SeqCst, Acquire).is_err() {
            return;
        }
        // Pairs with the fence in `count_thread`.
        fence(SeqCst);
        for thread in self.threads() {
            // Pairs with the exchange in `before_return_to_user`, which is followed by a look at `ending`.
            thread.exit_pending.store(1, SeqCst);
            sched::wake_thread(thread);
        }
    }

    /// The status that it ends with, or has ended with. Acquire: pairs with the exchange in `end_alone`, and
    /// with the store in `exit_thread`.
    pub fn status(&self) -> Status {
        match self.ending.load(Acquire) {
            0 => Status(self.left_with.load(Acquire)),
            ending => Status(ending & !ENDING),
        }
    }

    /// Ends the running thread with an exit code, which is the process's if it leaves last.
    pub fn exit_thread(&'static self, code: u32) -> ! {
        // Release: pairs with the load in `status`.
        self.left_with.store(Status::exited(code).0, Release);
        self.leave()
    }

    /// Ends the running thread, which is one of the process; the last one ends the process. The thread's
    /// handle of its space goes first, so memory that was the process's alone is free before anyone hears of
    /// its end.
    pub fn leave(&'static self) -> ! {
        let thread = percpu::thread();
        let clear = VirtAddr(thread.clear_tid.load(Relaxed));
        if clear.0 != 0 && user::write(clear, &[0; 4]).is_ok() {
            sched::wake(key(clear), 1);
        }
        // Other threads may be leaving too; the last one is alone.
        if self.alive.load(Relaxed) == 1 {
            self.count_resident();
        }
        thread.process.store(Thread::NO_PROCESS, Release);
        thread.exit_pending.store(0, Relaxed);
        spaces::leave_space(|| {
            let was_last = self.alive.fetch_sub(1, AcqRel) == 1;
            match self.parent() {
                _ if !was_last => {}
                // The thread that boots waits, and ends it.
                0 => Core::wake(&self.alive, 1),
                _ => self.has_ended(),
            }
        })
    }

    /// Waits for the last thread of the first process.
    pub fn wait_for_all(&self) {
        loop {
            // Acquire: pairs with the decrement in `leave`.
            let alive = self.alive.load(Acquire);
            if alive == 0 {
                return;
            }
            Core::sleep(&self.alive, alive);
        }
    }
}

/// What threads sleep on for a word of the running thread's space.
///
/// # Panics
/// Where the thread has none.
pub fn key(at: VirtAddr) -> WaitKey {
    percpu::thread()
        .with_space(|space| WaitKey::in_space(space.expect("a program's thread has a space").id(), at))
}

/// A thread of a process is about to go back to ring 3, after a tick or an interrupt by another CPU; or not,
/// where its process ends.
pub fn before_return_to_user(_: &mut Frame) {
    // Cleared before the look: a process that ends from here on sets it again.
    percpu::thread().exit_pending.swap(0, SeqCst);
    let process = current();
    if process.is_ending() {
        process.leave();
    }
    process.count_at_tick();
    memory::tick();
    khugepaged::tick();
}
