//! Starting a program that waits at a gate, and small queries of the host.

use std::ffi::{CString, OsStr};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::{fs::File, ptr};

/// Where a child's standard output goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChildOutput {
    /// Where that of this process goes.
    #[default]
    Inherited,
    /// To the standard error of this process, whose standard output is for a report.
    OnStderr,
}

/// A child process that has not executed its program yet: it waits until it is released.
#[derive(Debug)]
pub struct HeldChild {
    pid: u32,
    gate: File,
    error: File,
}

impl HeldChild {
    /// Forks a child that will execute `command`, found as a shell finds it.
    ///
    /// # Errors
    /// A word with a zero byte, or what the host says.
    pub fn spawn(command: &[impl AsRef<OsStr>], output: ChildOutput) -> io::Result<HeldChild> {
        let words = command.iter().map(|w| CString::new(w.as_ref().as_bytes()));
        let words = words.collect::<Result<Vec<_>, _>>()?;
        let mut pointers: Vec<_> = words.iter().map(|w| w.as_ptr()).collect();
        pointers.push(ptr::null());
        let ((gate_out, gate_in), (error_out, error_in)) = (pipe()?, pipe()?);
        // SAFETY: the child calls only async-signal-safe functions, on memory prepared above: other threads
        // of this process do not exist in it.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            // SAFETY: this is the child of the fork; `pointers` is a terminated list of terminated strings.
            0 => unsafe {
                if output == ChildOutput::OnStderr {
                    libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO);
                }
                wait_and_execute(&pointers, gate_out.as_raw_fd(), gate_in.as_raw_fd(), error_in.as_raw_fd())
            },
            pid => Ok(HeldChild { pid: pid as u32, gate: gate_in.into(), error: error_out.into() }),
        }
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Releases it.
    pub fn release(&mut self) -> io::Result<()> {
        self.gate.write_all(b"g")
    }

    /// Why the program could not be executed; asked after the child has ended without executing it.
    pub fn failure(&mut self) -> io::Error {
        let mut code = [0; 4];
        match self.error.read_exact(&mut code) {
            Ok(()) => io::Error::from_raw_os_error(i32::from_le_bytes(code)),
            Err(_) => io::Error::other("it ended before it began"),
        }
    }
}

/// The child's side of the gate.
///
/// # Safety
///
/// Must be called in the child of a fork only, with a null-terminated list of C strings.
unsafe fn wait_and_execute(words: &[*const libc::c_char], gate: i32, gate_in: i32, error: i32) -> ! {
    let mut byte = 0u8;
    // SAFETY: all of these are async-signal-safe; the buffers are locals; the list is as our caller promises.
    // The child closes its copy of the gate's writing end, so that it ends if its parent does.
    unsafe {
        libc::close(gate_in);
        libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::signal(libc::SIGINT, libc::SIG_DFL);
        if libc::read(gate, (&raw mut byte).cast(), 1) == 1 {
            libc::execvp(words[0], words.as_ptr());
            let code = (*libc::__errno_location()).to_le_bytes();
            libc::write(error, code.as_ptr().cast(), code.len());
        }
        libc::_exit(127)
    }
}

/// A pipe's ends, to read and to write, closed when a program is executed.
pub(super) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: two integers are written, which are then descriptors that belong to us alone.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

/// Waits until the child `pid` is over and returns its wait status.
pub fn wait_for(pid: u32) -> io::Result<i32> {
    let mut status = 0;
    // SAFETY: one integer is written.
    while unsafe { libc::waitpid(pid as i32, &mut status, 0) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(status)
}

/// Kills a process that this one started.
pub fn kill(pid: u32) {
    send_signal(pid, libc::SIGKILL);
}

/// Sends a signal to a process that this one started.
pub fn send_signal(pid: u32, signal: i32) {
    // SAFETY: only sends a signal.
    unsafe { libc::kill(pid as i32, signal) };
}

/// Has `command` killed when the thread that starts it ends, however it does.
pub fn end_with_parent(command: &mut Command) {
    let ask = || {
        // SAFETY: no memory is involved.
        match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: the closure runs in the child of a fork, where only async-signal-safe functions may be called:
    // it makes one system call, and reads errno.
    unsafe { command.pre_exec(ask) };
}

/// CLOCK_MONOTONIC, nanoseconds.
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// What all threads of this process together have run so far, nanoseconds.
pub fn cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is ours; both clocks always exist.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The soft limit of a resource (`libc::RLIMIT_STACK` and its like); `None` for no limit.
pub fn soft_limit(resource: libc::__rlimit_resource_t) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the structure is ours.
    unsafe { libc::getrlimit(resource, &mut limit) };
    Some(limit.rlim_cur).filter(|&cur| cur != libc::RLIM_INFINITY)
}

/// A number that `sysconf` knows, 0 if it does not.
pub fn system_number(name: libc::c_int) -> u64 {
    // SAFETY: no memory is involved.
    unsafe { libc::sysconf(name) }.max(0) as u64
}

/// Mounts tracefs at its usual place.
pub fn mount_tracefs() -> io::Result<()> {
    let (none, place, kind) = (c"tracefs".as_ptr(), c"/sys/kernel/tracing".as_ptr(), c"tracefs".as_ptr());
    // SAFETY: three terminated strings, and no data.
    let result = unsafe { libc::mount(none, place, kind, 0, ptr::null()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
