//! Processes that the child forks: each has a channel that exists from the start, and carries out steps on an
//! address space that began as a copy.
//!
//! A process that ends is waited for at once, by its parent or, where that has ended before it, by the child,
//! which adopts it.

use super::{Channel, Child, Process, raw_syscall, serve};
use std::io::{Error, Result};

/// Most processes that a child is, itself among them.
pub const MOST_PROCESSES: usize = 4;

/// In the place of a call's number: fork the process of a channel; end.
pub(super) const FORK: u64 = u64::MAX - 2;
pub(super) const EXIT: u64 = u64::MAX - 3;

impl Child {
    /// Has a process fork another, `number`, which is none so far.
    ///
    /// # Errors
    /// What Linux says, or `BrokenPipe` if a process died.
    ///
    /// # Panics
    /// Where `number` is not free.
    pub fn fork(&mut self, parent: usize, number: usize) -> Result<()> {
        assert!(self.processes[number].is_none(), "process {number} lives");
        let result = self.carry_out(parent, &[[FORK, number as u64, 0, 0, 0, 0, 0]])?[0].cast_signed();
        if result < 0 {
            return Err(Error::from_raw_os_error(-result as i32));
        }
        self.processes[number] = Some(Process { pid: result as i32, parent: Some(parent) });
        Ok(())
    }

    /// Ends a process that was forked, and waits until all of it is gone.
    ///
    /// # Errors
    /// `BrokenPipe` if a process died before.
    ///
    /// # Panics
    /// Where there is no such process, or it is the child itself.
    pub fn end(&mut self, number: usize) -> Result<()> {
        let Process { pid, parent } = self.processes[number].expect("the process lives");
        let parent = parent.expect("the child itself goes on");
        let waits = if self.processes[parent].is_some() { parent } else { 0 };
        self.ask(number, &[[EXIT, 0, 0, 0, 0, 0, 0]]);
        let waited = self.carry_out(waits, &[[libc::SYS_wait4 as u64, pid as u64, 0, 0, 0, 0, 0]])?[0];
        assert_eq!(waited, pid as u64, "a process waits for its child");
        self.processes[number] = None;
        let orphans = self.processes.iter_mut().flatten().filter(|process| process.parent == Some(number));
        orphans.for_each(|process| process.parent = Some(0));
        Ok(())
    }

    /// Whether a process lives.
    #[must_use]
    pub fn lives(&self, number: usize) -> bool {
        self.processes[number].is_some()
    }

    /// The host's number of a process.
    ///
    /// # Panics
    /// Where there is none.
    #[must_use]
    pub fn pid_of(&self, number: usize) -> i32 {
        self.processes[number].expect("the process lives").pid
    }
}

/// Forks; the new process serves channel `number`. Returns its process number, or an error, to the caller.
pub(super) fn fork(channels: &[Channel; MOST_PROCESSES], number: usize) -> u64 {
    // SAFETY: a fork, as no flag asks for more: the new process has copies of this one's memory and of its
    // one thread, which calls only `serve`.
    let result = unsafe { raw_syscall(libc::SYS_clone as u64, [libc::SIGCHLD as u64, 0, 0, 0, 0, 0]) };
    if result == 0 { serve(channels, number) } else { result }
}

/// Ends this process.
pub(super) fn exit() -> ! {
    // SAFETY: ends the process without running anything of the parent's.
    unsafe { libc::_exit(0) }
}
