//! membarrier(2): one call after which every running thread of this process has passed a full fence.

use std::io;
use std::sync::OnceLock;

/// The right to call the expedited barrier, which a process registers for once.
#[derive(Clone, Copy, Debug)]
pub struct Membarrier(());

impl Membarrier {
    /// Registers the process; fails where the kernel has no membarrier or a filter forbids it.
    pub fn register() -> io::Result<Membarrier> {
        static REGISTERED: OnceLock<Result<(), i32>> = OnceLock::new();
        let register = || call(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
        let answer = REGISTERED.get_or_init(|| register().map_err(|e| e.raw_os_error().unwrap_or(0)));
        answer.map(|()| Membarrier(())).map_err(io::Error::from_raw_os_error)
    }

    /// Returns once every thread of the process that was running has executed a full fence.
    pub fn all_threads(self) {
        // A registered process is never refused: the kernel checks nothing else.
        call(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED).expect("the process is registered");
    }
}

fn call(command: i32) -> io::Result<()> {
    // SAFETY: membarrier takes three integers and touches no memory of the caller.
    let answer = unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
#[path = "tests/membarrier.rs"]
mod tests;
