//! A file that is removed when a signal ends this process.

use std::ffi::{CString, c_char, c_int};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering::SeqCst};

/// Signals whose default ends the process, besides the real-time ones. Not among them: SIGKILL, which has no
/// handler; SIGSEGV and SIGBUS, in whose handlers Rust detects a stack overflow; SIGPIPE, which Rust ignores;
/// SIGINT, which a recorder takes; SIGXFSZ, see [`survive_file_limit`].
const ENDS: [c_int; 17] = [
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGFPE,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGTERM,
    libc::SIGSTKFLT,
    libc::SIGXCPU,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGSYS,
];

/// Name of the file to remove; never freed while it is published.
static PUBLISHED: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());
/// The process that published it; a child of a fork removes nothing.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// Calls `make`, and if that made `file`, has it removed when a signal ends this process, until [`forget`] or
/// the next call. While `make` runs, this thread receives no signal: called by the only thread of a process,
/// no signal but SIGKILL can end it between the two.
///
/// # Errors
/// What `make` says.
pub fn removing<T>(file: &Path, make: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let name = CString::new(file.as_os_str().as_bytes())?;
    let blocked = Blocked::all();
    let made = make()?;
    // SAFETY: `getpid` takes no memory.
    OWNER.store(unsafe { libc::getpid() }, SeqCst);
    // The earlier name is leaked: a handler on another thread may be reading it.
    PUBLISHED.store(name.into_raw(), SeqCst);
    ENDS.into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX()).for_each(install);
    drop(blocked);
    Ok(made)
}

/// Removes nothing any more.
pub fn forget() {
    PUBLISHED.store(ptr::null_mut(), SeqCst);
}

/// Makes a file that outgrows RLIMIT_FSIZE an error of the write (EFBIG): SIGXFSZ does nothing in this
/// process. Programs that it starts do not inherit that, unless it was ignored before.
pub fn survive_file_limit() {
    extern "C" fn nothing(_: c_int) {}
    // An ignored signal would be inherited by programs, a handler is not.
    handle(libc::SIGXFSZ, nothing);
}

fn install(signal: c_int) {
    handle(signal, remove_and_end);
}

/// Installs the handler, unless the signal is ignored (`nohup`).
fn handle(signal: c_int, handler: extern "C" fn(c_int)) {
    // SAFETY: `signal` sets a disposition; the handlers call async-signal-safe functions only.
    unsafe {
        let before = libc::signal(signal, handler as *const () as libc::sighandler_t);
        if before == libc::SIG_IGN {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
}

/// Removes the published file, then ends the process as the signal does without a handler.
extern "C" fn remove_and_end(signal: c_int) {
    // SAFETY: `getpid`, `unlink`, `signal` and `raise` are async-signal-safe. A published name is a
    // terminated string that is never freed: `removing` leaks it.
    unsafe {
        let name = PUBLISHED.load(SeqCst);
        if !name.is_null() && OWNER.load(SeqCst) == libc::getpid() {
            libc::unlink(name);
        }
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// No signal reaches this thread while this is there.
struct Blocked(libc::sigset_t);

impl Blocked {
    fn all() -> Blocked {
        let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: `sigfillset` writes the first set, `pthread_sigmask` reads it and writes the second; it
        // fails only for an unknown request.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            Blocked(before.assume_init())
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the set is ours, and was the thread's.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, ptr::null_mut()) };
    }
}
