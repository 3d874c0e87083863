//! Following a process and all that it starts, by `ptrace` stops.
//!
//! A tracer is a thread: every function here must be called by the thread that seized the task.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// Why a task stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PtraceStop {
    /// It made a task: its number, and which.
    NewTask(u32, Making),
    /// It loaded a program; the number of the thread that called `execve` before it took the process's.
    Exec(u32),
    /// It is about to end, with this wait status; its memory is still there.
    Exit(i32),
    /// It has just begun, or was interrupted.
    Begin,
    /// Its process is being stopped by a signal (SIGSTOP and its like).
    Group,
    /// It is at the entry or the exit of a system call.
    Call,
    /// A signal is about to be delivered.
    Signal(i32),
}

/// How a task was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Making {
    /// A process with a copy of the memory, or a thread, or something between.
    Fork,
    /// A child that its parent waits for, in the same memory.
    Vfork,
}

/// What became of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It stopped.
    Stopped(PtraceStop),
    /// It is over, and still visible in `/proc` until [`reap`]ed.
    Over,
    /// It was killed as it stopped, with this wait status, and is gone.
    Gone(i32),
}

/// Whether a task stops at its system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// It does not.
    Run,
    /// It stops at each entry and exit.
    Stop,
}

/// A request that takes two numbers, and touches no memory of this process.
fn request(request: libc::c_uint, tid: u32, address: usize, data: usize) -> io::Result<()> {
    const NUMBERS_ALONE: [libc::c_uint; 4] =
        [libc::PTRACE_SEIZE, libc::PTRACE_SYSCALL, libc::PTRACE_CONT, libc::PTRACE_LISTEN];
    assert!(NUMBERS_ALONE.contains(&request), "request {request} takes more than numbers");
    // SAFETY: it is one of those listed, none of which reads or writes memory of this process.
    unsafe { request_into(request, tid, address, data) }
}

/// # Safety
/// If the request reads or writes memory of this process, then as much as there is at `data`.
unsafe fn request_into(request: libc::c_uint, tid: u32, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: the caller's promise.
    let result = unsafe { libc::ptrace(request, tid as libc::pid_t, address, data) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Begins to follow `tid` and everything it will start. It is not stopped by this; it dies if the tracer
/// does.
pub fn seize(tid: u32) -> io::Result<()> {
    let options = libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_TRACEEXIT
        | libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_EXITKILL;
    request(libc::PTRACE_SEIZE, tid, 0, options as usize)
}

/// Lets a stopped task go on, delivering `signal` (0 for none).
pub fn resume(tid: u32, calls: Calls, signal: i32) -> io::Result<()> {
    let how = if calls == Calls::Stop { libc::PTRACE_SYSCALL } else { libc::PTRACE_CONT };
    request(how, tid, 0, signal as usize)
}

/// Leaves a task in its group stop, listening for what ends it.
pub fn listen(tid: u32) -> io::Result<()> {
    request(libc::PTRACE_LISTEN, tid, 0, 0)
}

/// The signal of a signal-delivery stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalFacts {
    /// `si_code`: above 0 if the kernel raised it.
    pub code: i32,
    /// `si_addr`.
    pub address: u64,
}

/// The facts of the signal that `tid` is stopped for.
pub fn signal_facts(tid: u32) -> io::Result<SignalFacts> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: the request fills one structure of this type.
    unsafe { request_into(libc::PTRACE_GETSIGINFO, tid, 0, info.as_mut_ptr() as usize)? };
    // SAFETY: zeroed is a valid value of this plain structure, and the kernel has filled it since; `si_addr`
    // reads a field of the union that is plain bits whichever signal it is.
    let (code, address) = unsafe {
        let info = info.assume_init();
        (info.si_code, info.si_addr() as u64)
    };
    Ok(SignalFacts { code, address })
}

/// Where a task is in a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallStop {
    /// At its entry: number and arguments.
    Entry(u64, [u64; 6]),
    /// At its exit: result.
    Exit(i64),
    /// Neither.
    None,
}

/// The call stop that `tid` is in.
pub fn call_stop(tid: u32) -> io::Result<CallStop> {
    let mut info = MaybeUninit::<libc::ptrace_syscall_info>::zeroed();
    let size = size_of::<libc::ptrace_syscall_info>();
    // SAFETY: the request fills at most `size` bytes, which is the structure's size.
    unsafe { request_into(libc::PTRACE_GET_SYSCALL_INFO, tid, size, info.as_mut_ptr() as usize)? };
    // SAFETY: zeroed is a valid value of this plain structure; `op` says which member of the union the kernel
    // wrote.
    unsafe {
        let info = info.assume_init();
        Ok(match info.op {
            libc::PTRACE_SYSCALL_INFO_ENTRY => CallStop::Entry(info.u.entry.nr, info.u.entry.args),
            libc::PTRACE_SYSCALL_INFO_EXIT => CallStop::Exit(info.u.exit.sval),
            _ => CallStop::None,
        })
    }
}

/// Waits for a change of any task that this thread follows. `None`: it follows none any more.
pub fn wait() -> io::Result<Option<(u32, Change)>> {
    let options = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT | libc::__WALL | libc::__WNOTHREAD;
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: the structure is ours and of the size the call writes.
    while unsafe { libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), options) } < 0 {
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::ECHILD) => return Ok(None),
            _ => return Err(error),
        }
    }
    // SAFETY: zeroed is a valid value, and waitid filled it: these are the fields it fills for a child.
    let (tid, code) = unsafe {
        let info = info.assume_init();
        (info.si_pid() as u32, info.si_code)
    };
    if matches!(code, libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED) {
        return Ok(Some((tid, Change::Over)));
    }
    let status = reap(tid)?;
    if !libc::WIFSTOPPED(status) {
        return Ok(Some((tid, Change::Gone(status))));
    }
    Ok(Some((tid, Change::Stopped(stop(tid, status)?))))
}

fn stop(tid: u32, status: i32) -> io::Result<PtraceStop> {
    let signal = libc::WSTOPSIG(status);
    Ok(match status >> 16 {
        libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_CLONE => {
            PtraceStop::NewTask(message(tid)? as u32, Making::Fork)
        }
        libc::PTRACE_EVENT_VFORK => PtraceStop::NewTask(message(tid)? as u32, Making::Vfork),
        libc::PTRACE_EVENT_EXEC => PtraceStop::Exec(message(tid)? as u32),
        libc::PTRACE_EVENT_EXIT => PtraceStop::Exit(message(tid)? as i32),
        libc::PTRACE_EVENT_STOP if signal == libc::SIGTRAP => PtraceStop::Begin,
        libc::PTRACE_EVENT_STOP => PtraceStop::Group,
        _ if signal == libc::SIGTRAP | 0x80 => PtraceStop::Call,
        _ => PtraceStop::Signal(signal),
    })
}

fn message(tid: u32) -> io::Result<u64> {
    let mut message: libc::c_ulong = 0;
    // SAFETY: the request fills one such number.
    unsafe { request_into(libc::PTRACE_GETEVENTMSG, tid, 0, (&raw mut message) as usize)? };
    Ok(message)
}

/// Takes the change that [`wait`] showed of `tid` and returns its wait status; a task that is over is then
/// gone.
pub fn reap(tid: u32) -> io::Result<i32> {
    let mut status = 0;
    // SAFETY: one integer is written; no usage is asked for.
    let got =
        unsafe { libc::wait4(tid as i32, &mut status, libc::__WALL | libc::__WNOTHREAD, ptr::null_mut()) };
    if got < 0 { Err(io::Error::last_os_error()) } else { Ok(status) }
}
