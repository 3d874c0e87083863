//! Processes: forked, sharing the parent's memory, waited for.

use super::thread::{call_body, clone};
use super::{Errno, call, exit_group, nr};

/// CLONE_VM, and SIGCHLD at the end.
const SHARING: usize = 0x100 | 17;
const CLONE_VFORK: usize = 0x4000;
/// wait4 returns at once.
const WNOHANG: usize = 1;

/// A child, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child(pub usize);

/// The process that goes on after a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forked {
    /// The child, with one thread and a copy of the memory.
    Child,
    /// The parent.
    Parent(Child),
}

/// How a child ended: the exit code in bits 8 to 15, or the signal in bits 0 to 6.
pub type Status = u32;

/// Makes a child with a copy of the memory.
pub fn fork() -> Result<Forked, Errno> {
    // SAFETY: the parent's memory does not change, and the child's is a copy, in which this thread goes on.
    let number = unsafe { call(nr::FORK, [0; 6]) }?;
    Ok(if number == 0 { Forked::Child } else { Forked::Parent(Child(number)) })
}

/// Makes a child that ends with the code which `body` leaves by [`exit_group`], or with 0. It runs in the
/// same memory, on a stack of its own; the caller goes on when it has ended.
pub fn fork_sharing(body: fn(usize), argument: usize) -> Result<Child, Errno> {
    let (_, number) = clone(SHARING | CLONE_VFORK, run, body, argument)?;
    Ok(Child(number))
}

/// As [`fork_sharing`], and the caller goes on at once.
pub fn fork_sharing_beside(body: fn(usize), argument: usize) -> Result<Child, Errno> {
    let (_, number) = clone(SHARING, run, body, argument)?;
    Ok(Child(number))
}

extern "C" fn run(index: usize) -> ! {
    call_body(index);
    exit_group(0)
}

/// Waits for a child, or for any; its status.
pub fn wait(child: Option<Child>) -> Result<(Child, Status), Errno> {
    wait_with(child, 0).map(|ended| ended.expect("it waits"))
}

/// The status of a child, or of any, that has ended. `None` where none has.
pub fn try_wait(child: Option<Child>) -> Result<Option<(Child, Status)>, Errno> {
    wait_with(child, WNOHANG)
}

fn wait_with(child: Option<Child>, options: usize) -> Result<Option<(Child, Status)>, Errno> {
    let (number, mut status) = (child.map_or(usize::MAX, |child| child.0), 0u32);
    // SAFETY: the kernel writes the four bytes of the status.
    let ended =
        unsafe { call(nr::WAIT4, [number, (&raw mut status).expose_provenance(), options, 0, 0, 0]) }?;
    Ok((ended != 0).then_some((Child(ended), status)))
}

/// The number of this process, and of its parent.
pub fn numbers() -> (usize, usize) {
    // SAFETY: they take nothing and write nothing.
    let own = unsafe { call(nr::GETPID, [0; 6]) };
    // SAFETY: as above.
    let parent = unsafe { call(nr::GETPPID, [0; 6]) };
    (own.unwrap_or(0), parent.unwrap_or(0))
}
