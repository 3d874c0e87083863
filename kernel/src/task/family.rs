//! Families of processes: children, and orphans.
//!
//! ```text
//!   parent   reserve ─► the child starts          ─► wait4: sleeps on `children_ended` ─► reaps the zombie
//!   child                          runs ─► ends ─► ZOMBIE, wakes the parent
//!   orphan                                its parent has ended: the first process is its parent now
//! ```
//!
//! The first process adopts orphans. When it ends, all others are ended, and waited for.

use super::process::{
    FAMILY, FREE, FamilyGuard, PROCESSES, Process, RESERVED, RUNNING, Status, ZOMBIE, next_number,
};
use super::sched;
use crate::arch::thread::Thread;
use core::sync::atomic::Ordering::*;
use interleaf_linux_abi::signal::SIGKILL;

/// The children that wait4 looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Children {
    /// Any of them.
    Any,
    /// The one with this number.
    Number(u32),
}

impl Children {
    fn include(self, number: u32) -> bool {
        match self {
            Children::Any => true,
            Children::Number(wanted) => wanted == number,
        }
    }
}

/// The answer to wait4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaped {
    /// Number, status, and the largest resident memory in pages, of one that had ended and of those that it
    /// has waited for. Its number is free.
    Ended(u32, Status, u64),
    /// There are children, and none has ended.
    NoneYet,
    /// There is no such child.
    NoChild,
}

impl Process {
    /// A process without threads, child of `parent`. `None` where there are too many, or the first one has
    /// ended.
    pub fn reserve(parent: Option<&Process>) -> Option<&'static Process> {
        let family = FAMILY.lock();
        if family.is_closed {
            return None;
        }
        let process = PROCESSES.iter().find(|process| process.is(FREE))?;
        process.number.store(next_number(), Relaxed);
        process.parent.store(parent.map_or(0, Process::number), Relaxed);
        let Process { ending, alive, left_with, children_ended, .. } = process;
        for word in [ending, alive, left_with, children_ended] {
            word.store(0, Relaxed);
        }
        process.memory().reset();
        process.files().inherit(parent.map(Process::files));
        process.actions().inherit(parent.map(Process::actions));
        process.step(RESERVED, &family);
        Some(process)
    }

    /// Gives up a process that has not started.
    pub fn cancel(&self) {
        let family = FAMILY.lock();
        debug_assert!(self.is(RESERVED), "a process that has started is cancelled");
        self.step(FREE, &family);
    }

    /// Makes a thread the first of the process; its number.
    pub fn start(&self, thread: &Thread) -> u32 {
        self.add_first_thread(thread, &FAMILY.lock())
    }

    /// Ends the process that has this place, if it still has this number.
    fn end_numbered(&self, number: u32) {
        let family = FAMILY.lock();
        let is_there = self.is(RUNNING) && self.number() == number;
        if is_there {
            self.end_alone(Status::killed(SIGKILL), &family);
        }
        drop(family);
        if is_there {
            sched::interrupt_others();
        }
    }

    /// No thread is left: what remains is its status, for its parent. The first process adopts its children.
    pub fn has_ended(&self) {
        let first = PROCESSES[0].number();
        let family = FAMILY.lock();
        let mut has_orphans = false;
        for orphan in PROCESSES.iter().filter(|other| !other.is(FREE) && other.parent() == self.number()) {
            orphan.parent.store(first, Relaxed);
            has_orphans = true;
        }
        let parent = self.parent();
        self.step(ZOMBIE, &family);
        tell_of_an_end(parent, &family);
        if has_orphans {
            tell_of_an_end(first, &family);
        }
        drop(family);
        // The parent that waits for a child of vfork.
        sched::wake(self.state_address(), u32::MAX);
    }

    /// Takes a child that has ended out of the table.
    pub fn reap(&self, children: Children) -> Reaped {
        let family = FAMILY.lock();
        let (me, mut answer) = (self.number(), Reaped::NoChild);
        let has_started = |other: &&Process| other.is(RUNNING) || other.is(ZOMBIE);
        let own = PROCESSES.iter().filter(has_started).filter(|other| other.parent() == me);
        for child in own.filter(|other| children.include(other.number())) {
            if child.is(ZOMBIE) {
                let (number, status, peak) = (child.number(), child.status(), child.memory().peak_of_all());
                self.memory().note_child(peak);
                child.step(FREE, &family);
                return Reaped::Ended(number, status, peak);
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

    /// How many children have ended. Acquire: pairs with the increment in `tell_of_an_end`.
    pub fn nr_children_ended(&self) -> u32 {
        self.children_ended.load(Acquire)
    }

    /// Waits for the end of a child of vfork, or until the caller `gives_up`. `number` is the child's,
    /// because another process may have its place then.
    pub fn wait_for_end(&self, number: u32, gives_up: impl Fn() -> bool) {
        let runs = || self.number() == number && self.is(RUNNING) && !gives_up();
        while runs() {
            sched::sleep(self.state_address(), runs);
        }
    }
}

/// Wakes the threads of the process with this number that wait for a child.
fn tell_of_an_end(number: u32, _family: &FamilyGuard) {
    if let Some(parent) = PROCESSES.iter().find(|process| process.is(RUNNING) && process.number() == number) {
        // Release: the child's state, for a thread that reads the count before it looks for children.
        parent.children_ended.fetch_add(1, Release);
        sched::wake(parent.children_ended.as_ptr().addr(), u32::MAX);
    }
}

/// Ends every process but the first, and forgets them all: the first one has ended. None is born meanwhile.
pub fn end_all() {
    let (first, others) = PROCESSES.split_first().expect("the table has places");
    FAMILY.lock().is_closed = true;
    while others.iter().any(|other| !other.is(FREE)) {
        others.iter().for_each(|other| other.end_numbered(other.number()));
        while let Reaped::Ended(..) = first.reap(Children::Any) {}
        sched::yield_now();
    }
    let mut family = FAMILY.lock();
    family.is_closed = false;
    first.step(FREE, &family);
}
