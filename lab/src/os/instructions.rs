//! ptrace(2): counts the instructions that a function executes, exactly, one step at a time.

use std::io;
use std::ptr::null_mut;

/// Runs `f` in a forked child and counts the instructions from its start to the child's end. The few around
/// `f` are the same for every `f`, so that two counts compare.
///
/// `f` allocates nothing and takes no lock: in the child only the forking thread exists.
///
/// # Errors
/// What the host says: no fork, or no ptrace here.
pub fn count(f: impl FnOnce()) -> io::Result<u64> {
    // SAFETY: the child has its own copy of all memory, runs `f` alone and leaves by `_exit`. A lock that
    // another thread holds stays locked in it: an `f` that takes one never ends, and does no worse.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => be_counted(f),
        child => {
            let counted = step_to_end(child);
            if counted.is_err() {
                // SAFETY: the child is ours and not yet waited for to its end.
                unsafe { libc::kill(child, libc::SIGKILL) };
                let _ = wait(child);
            }
            counted
        }
    }
}

fn be_counted(f: impl FnOnce()) -> ! {
    let none = null_mut::<libc::c_void>();
    // SAFETY: asking to be traced by the parent takes no memory.
    let traced = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, none, none) };
    if traced == 0 {
        // SAFETY: the parent waits for this stop.
        unsafe { libc::raise(libc::SIGSTOP) };
        f();
    }
    // SAFETY: ends the process at once; nothing of the parent's is flushed or freed.
    unsafe { libc::_exit(i32::from(traced != 0)) }
}

fn step_to_end(child: libc::pid_t) -> io::Result<u64> {
    let mut status = wait(child)?;
    let mut count = 0;
    let none = null_mut::<libc::c_void>();
    while libc::WIFSTOPPED(status) {
        // SAFETY: the child is stopped and traced by this thread.
        if unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, child, none, none) } != 0 {
            return Err(io::Error::last_os_error());
        }
        status = wait(child)?;
        count += 1;
    }
    if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0 {
        Ok(count)
    } else {
        Err(io::Error::other("the counted child did not end well"))
    }
}

fn wait(child: libc::pid_t) -> io::Result<i32> {
    let mut status = 0;
    // SAFETY: the kernel writes the status of our child.
    let answer = unsafe { libc::waitpid(child, &mut status, 0) };
    if answer == child { Ok(status) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
#[path = "tests/instructions.rs"]
mod tests;
