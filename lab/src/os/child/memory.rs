//! Memory of the child's processes, loaded from and stored to by their parent.

use super::Child;
use std::fs::File;
use std::io::{Error, Result};
use std::os::unix::fs::FileExt;

/// `len` bytes at an address of some process.
fn piece(addr: *mut u8, len: usize) -> libc::iovec {
    libc::iovec { iov_base: addr.cast(), iov_len: len }
}

fn count(result: isize) -> Result<usize> {
    usize::try_from(result).map_err(|_| Error::last_os_error())
}

impl Child {
    /// process_vm_readv(2) of one piece: the number of bytes that were loaded.
    ///
    /// # Errors
    /// What Linux says.
    pub fn load(&self, process: usize, addr: u64, to: &mut [u8]) -> Result<usize> {
        let remote = piece(std::ptr::without_provenance_mut(addr as usize), to.len());
        let local = piece(to.as_mut_ptr(), to.len());
        // SAFETY: the call writes to the bytes of `to` alone, which is exclusive.
        count(unsafe {
            libc::process_vm_readv(self.pid_of(process), &raw const local, 1, &raw const remote, 1, 0)
        })
    }

    /// process_vm_writev(2) of one piece: the number of bytes that were stored.
    ///
    /// # Errors
    /// What Linux says.
    ///
    /// # Panics
    /// Where the bytes do not lie in a window.
    pub fn store(&self, process: usize, addr: u64, from: &[u8]) -> Result<usize> {
        self.assert_within(addr, from.len());
        let remote = piece(std::ptr::without_provenance_mut(addr as usize), from.len());
        let local = piece(from.as_ptr().cast_mut(), from.len());
        // SAFETY: the call loads the bytes of `from`, and stores to a window of another process, in which
        // that has nothing of its own.
        count(unsafe {
            libc::process_vm_writev(self.pid_of(process), &raw const local, 1, &raw const remote, 1, 0)
        })
    }

    /// As [`store`](Self::store), as a debugger does: through `/proc/pid/mem`, which asks for no right to
    /// write private memory.
    ///
    /// # Errors
    /// What Linux says.
    ///
    /// # Panics
    /// As [`store`](Self::store).
    pub fn store_forced(&self, process: usize, addr: u64, from: &[u8]) -> Result<usize> {
        self.assert_within(addr, from.len());
        let memory = File::options().write(true).open(format!("/proc/{}/mem", self.pid_of(process)))?;
        memory.write_at(from, addr)
    }

    fn assert_within(&self, addr: u64, len: usize) {
        let bounds = self.bounds.as_ref().expect("the child's address space is arranged");
        assert!(bounds.within(addr, len as u64), "a store outside of the windows");
    }
}
