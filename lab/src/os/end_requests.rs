//! Signals that ask this process to end, told to a thread instead.

use super::process::pipe;
use std::ffi::{c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};
use std::time::Duration;

/// The signals that are told.
const ASKS: [c_int; 4] = [libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGINT];

/// The descriptor that the handler writes to; -1 for none. It is never closed: a handler on another thread
/// may be about to use it.
static TOLD: AtomicI32 = AtomicI32::new(-1);

/// While this is there, SIGTERM, SIGHUP, SIGQUIT and SIGINT do not end this process but are told to
/// [`next`](Self::next). The interrupt key's SIGINT is not told: it goes to the program in the foreground,
/// which may go on. A signal that is ignored stays so (`nohup`). Programs that this process starts have the
/// default of each. One at a time may be there in a process.
#[derive(Debug)]
pub struct EndRequests {
    out: OwnedFd,
    told: RawFd,
    before: Vec<(c_int, Action)>,
}

/// A disposition as it was.
struct Action(libc::sigaction);

impl std::fmt::Debug for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Action")
    }
}

impl EndRequests {
    /// Begins.
    ///
    /// # Errors
    /// There is one already; or what the host says.
    pub fn take() -> io::Result<EndRequests> {
        let (out, told) = pipe()?;
        // A handler never waits.
        set_nonblocking(&told)?;
        if TOLD.compare_exchange(-1, told.as_raw_fd(), SeqCst, SeqCst).is_err() {
            return Err(io::Error::other("another part of this process takes its end signals"));
        }
        let told = told.into_raw_fd();
        let before = ASKS.into_iter().filter_map(|signal| Some((signal, install(signal)?))).collect();
        Ok(EndRequests { out, told, before })
    }

    /// Waits for the next signal, for `most` at most, or until [`end`](Self::end).
    pub fn next(&self, most: Duration) -> Request {
        let mut ready = libc::pollfd { fd: self.out.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let most_ms = c_int::try_from(most.as_millis()).unwrap_or(c_int::MAX);
        let mut byte = 0_u8;
        // SAFETY: one structure is read and written, then one byte is written, both of ours.
        let read = unsafe {
            if libc::poll(&mut ready, 1, most_ms) != 1 {
                return Request::None;
            }
            libc::read(self.out.as_raw_fd(), (&raw mut byte).cast::<c_void>(), 1)
        };
        match (read, byte) {
            (1, 0) => Request::Over,
            (1, signal) => Request::Signal(c_int::from(signal)),
            _ => Request::None,
        }
    }

    /// Ends a wait of another thread.
    pub fn end(&self) {
        tell(self.told, 0);
    }
}

/// What was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Nothing, in the time that was given.
    None,
    /// This signal.
    Signal(c_int),
    /// Nothing more is waited for.
    Over,
}

impl Drop for EndRequests {
    fn drop(&mut self) {
        for (signal, action) in &self.before {
            // SAFETY: the action was the signal's before.
            unsafe { libc::sigaction(*signal, &action.0, ptr::null_mut()) };
        }
        TOLD.store(-1, SeqCst);
    }
}

/// Installs the handler, unless the signal is ignored; returns what was there.
fn install(signal: c_int) -> Option<Action> {
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the structures are ours; the handler calls async-signal-safe functions only, and has the three
    // arguments that SA_SIGINFO asks for.
    unsafe {
        libc::sigaction(signal, ptr::null(), before.as_mut_ptr());
        let before = before.assume_init();
        if before.sa_sigaction == libc::SIG_IGN {
            return None;
        }
        let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        let handler: extern "C" fn(c_int, *const libc::siginfo_t, *const c_void) = told;
        action.sa_sigaction = handler as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        (libc::sigaction(signal, &action, ptr::null_mut()) == 0).then_some(Action(before))
    }
}

/// The handler.
extern "C" fn told(signal: c_int, info: *const libc::siginfo_t, _context: *const c_void) {
    // SAFETY: with SA_SIGINFO the kernel passes a valid structure.
    let code = unsafe { (*info).si_code };
    // The key's signal comes from the kernel.
    if signal == libc::SIGINT && code == libc::SI_KERNEL {
        return;
    }
    tell(TOLD.load(SeqCst), signal as u8);
}

/// Writes a byte, without a word where that fails: as many signals wait then as a pipe holds. Keeps errno,
/// for the code that a handler interrupts.
fn tell(descriptor: c_int, byte: u8) {
    // SAFETY: `write` is async-signal-safe and reads one byte of ours; errno is this thread's own.
    unsafe {
        let errno = *libc::__errno_location();
        libc::write(descriptor, (&raw const byte).cast::<c_void>(), 1);
        *libc::__errno_location() = errno;
    }
}

fn set_nonblocking(descriptor: &OwnedFd) -> io::Result<()> {
    // SAFETY: sets a flag of a descriptor of ours; no memory is involved.
    match unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
