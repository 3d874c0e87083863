//! What the host's own fork costs a process with anonymous memory in base pages.
//!
//! ```text
//!  caller            process with the memory                its child
//!  write(pipe)  ->   map, touch; fork, timed           ->   write(ready), read(gate) sleeps
//!                    write(gate), wait4 gives its time <-   _exit
//!  read(pipe)   <-   the times
//! ```
//!
//! Times are those of the CPU, so that other programs that run meanwhile are in none of them. Each is taken
//! twice, with the memory and while MADV_DONTFORK keeps it out of the child; the difference is what the
//! memory costs. What else the process has (stack, code, what the caller had mapped when it was started) is
//! in both and drops out. Like [`Child`](super::child::Child), the process never returns to Rust code of the
//! caller, and allocates nothing.

use super::process::{cpu_ns, kill, pipe, wait_for};
use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::null_mut;

/// Nanoseconds of CPU time for all of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForkCost {
    /// fork, until it returns in the parent.
    pub fork: u64,
    /// The child's exit, in microseconds that the host gives.
    pub exit: u64,
    /// munmap by the parent of memory that a sleeping child shares.
    pub unmap_shared: u64,
}

/// A process that forks whenever it is asked. It ends with this value.
#[derive(Debug)]
pub struct ForkingProcess {
    pid: u32,
    request: File,
    reply: File,
}

/// The process's own ends of its pipes.
#[derive(Clone, Copy)]
struct Pipes {
    request: RawFd,
    reply: RawFd,
    /// Read by the child, which exits then; written by its parent.
    gate: [RawFd; 2],
    /// Written by the child once it runs; read by its parent.
    ready: [RawFd; 2],
}

/// The times in a reply, 8 bytes each; a process that failed ends without one.
const REPLY_BYTES: usize = 24;
const PAGE_BYTES: usize = 4096;

impl ForkingProcess {
    /// Starts a process that will map `len_bytes` of memory, on the CPUs of the caller.
    ///
    /// # Errors
    /// What the host says when it has no memory, pipes or processes left.
    pub fn start(len_bytes: usize) -> io::Result<Self> {
        let ((request_out, request_in), (reply_out, reply_in)) = (pipe()?, pipe()?);
        let (gate, ready) = (pipe()?, pipe()?);
        let pipes = Pipes {
            request: request_out.as_raw_fd(),
            reply: reply_in.as_raw_fd(),
            gate: [gate.0.as_raw_fd(), gate.1.as_raw_fd()],
            ready: [ready.0.as_raw_fd(), ready.1.as_raw_fd()],
        };
        // SAFETY: the child makes system calls only, on its locals and on memory that it maps itself, and
        // never returns: other threads of this process do not exist in it.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                close(request_in.as_raw_fd());
                close(reply_out.as_raw_fd());
                serve(len_bytes, pipes)
            }
            pid => Ok(Self { pid: pid as u32, request: request_in.into(), reply: reply_out.into() }),
        }
    }

    /// Has the process map fresh memory, and fork.
    ///
    /// # Errors
    /// The host refused one of the calls; the process has ended.
    pub fn measure(&mut self) -> io::Result<ForkCost> {
        self.request.write_all(b"m")?;
        let mut reply = [0; REPLY_BYTES];
        self.reply.read_exact(&mut reply)?;
        let [fork, exit, unmap_shared] =
            [0, 8, 16].map(|at| u64::from_le_bytes(std::array::from_fn(|byte| reply[at + byte])));
        Ok(ForkCost { fork, exit, unmap_shared })
    }
}

impl Drop for ForkingProcess {
    fn drop(&mut self) {
        kill(self.pid);
        // A process that is killed ends; nothing is left to do if it cannot be waited for.
        let _status = wait_for(self.pid);
    }
}

/// The process's loop: a reply for each byte, until the caller is gone.
fn serve(len_bytes: usize, pipes: Pipes) -> ! {
    while read_byte(pipes.request) {
        let Some(cost) = measure(len_bytes, pipes) else { exit(1) };
        let mut reply = [0; REPLY_BYTES];
        for (at, time) in [cost.fork, cost.exit, cost.unmap_shared].into_iter().enumerate() {
            reply[at * 8..][..8].copy_from_slice(&time.to_le_bytes());
        }
        if !write(pipes.reply, &reply) {
            exit(1)
        }
    }
    exit(0)
}

fn measure(len_bytes: usize, pipes: Pipes) -> Option<ForkCost> {
    let memory = Touched::map(len_bytes)?;
    memory.advise(libc::MADV_DONTFORK)?;
    let without = life(pipes)?;
    memory.advise(libc::MADV_DOFORK)?;
    let with = life(pipes)?;
    let child = fork(pipes)?;
    let start = cpu_ns();
    memory.unmap()?;
    let unmap_shared = cpu_ns() - start;
    end(pipes, child)?;
    let difference = |with: u64, without: u64| with.saturating_sub(without).max(1);
    Some(ForkCost { fork: difference(with.0, without.0), exit: difference(with.1, without.1), unmap_shared })
}

/// What fork takes, and the child, which does nothing but sleep and exit.
fn life(pipes: Pipes) -> Option<(u64, u64)> {
    let child = fork(pipes)?;
    Some((child.fork_ns, end(pipes, child)?))
}

/// A child that sleeps.
#[derive(Clone, Copy)]
struct Sleeper {
    pid: u32,
    fork_ns: u64,
}

/// Forks a child and waits until it is about to sleep.
fn fork(pipes: Pipes) -> Option<Sleeper> {
    let start = cpu_ns();
    // SAFETY: this process has one thread; the child makes system calls only and never returns.
    let pid = unsafe { libc::fork() };
    let fork_ns = cpu_ns().saturating_sub(start);
    match pid {
        -1 => None,
        0 => {
            // The gate's other end: the child ends if its parent does.
            close(pipes.gate[1]);
            write(pipes.ready[1], b"r");
            read_byte(pipes.gate[0]);
            exit(0)
        }
        pid => read_byte(pipes.ready[0]).then_some(Sleeper { pid: pid as u32, fork_ns }),
    }
}

/// Has the child exit; nanoseconds of CPU time that it had.
fn end(pipes: Pipes, child: Sleeper) -> Option<u64> {
    if !write(pipes.gate[1], b"g") {
        return None;
    }
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: one structure is written; all zeroes are a value of it.
    let (pid, usage) = unsafe {
        let pid = libc::wait4(child.pid as i32, null_mut(), 0, usage.as_mut_ptr());
        (pid, usage.assume_init())
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    (pid == child.pid as i32).then(|| ns(usage.ru_utime) + ns(usage.ru_stime))
}

/// Anonymous memory in base pages, each written to.
struct Touched {
    start: *mut libc::c_void,
    len_bytes: usize,
}

impl Touched {
    fn map(len_bytes: usize) -> Option<Touched> {
        let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address that the kernel chooses touches no memory in use.
        let start = unsafe { libc::mmap(null_mut(), len_bytes, rights, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        let memory = Touched { start, len_bytes };
        // A host without huge pages refuses the advice, and has base pages.
        let _best_effort = memory.advise(libc::MADV_NOHUGEPAGE);
        for offset in (0..len_bytes).step_by(PAGE_BYTES) {
            // SAFETY: the byte lies in the mapping made above, which nothing else knows of.
            unsafe { start.cast::<u8>().add(offset).write_volatile(1) };
        }
        Some(memory)
    }

    fn advise(&self, advice: libc::c_int) -> Option<()> {
        // SAFETY: the mapping is this value's; none of the advices given here changes a byte of it.
        (unsafe { libc::madvise(self.start, self.len_bytes, advice) } == 0).then_some(())
    }

    fn unmap(self) -> Option<()> {
        // SAFETY: the mapping is this value's, which ends here.
        (unsafe { libc::munmap(self.start, self.len_bytes) } == 0).then_some(())
    }
}

fn read_byte(from: RawFd) -> bool {
    let mut byte = 0u8;
    // SAFETY: one byte is written, a local.
    unsafe { libc::read(from, (&raw mut byte).cast(), 1) == 1 }
}

fn write(to: RawFd, bytes: &[u8]) -> bool {
    // SAFETY: as many bytes are read as the slice has.
    unsafe { libc::write(to, bytes.as_ptr().cast(), bytes.len()) == bytes.len() as isize }
}

/// Closes the copy that the child of a fork has of a descriptor of its parent.
fn close(descriptor: RawFd) {
    // SAFETY: the child, which alone calls this, does not use the descriptor any more.
    unsafe { libc::close(descriptor) };
}

fn exit(status: i32) -> ! {
    // SAFETY: ends this process, without running anything of it.
    unsafe { libc::_exit(status) }
}

#[cfg(test)]
#[path = "tests/fork_cost.rs"]
mod tests;
