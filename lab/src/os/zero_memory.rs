//! Memory of the host that reads as zeros: by large pages, by small ones, or one small page shown everywhere.

use super::memory::Reservation;
use std::fs::{self, File};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsRawFd, FromRawFd};

/// How the host is to put zeros behind memory that is only read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZeroPages {
    /// By 2 MiB pages, where it has them: Linux's huge zero page.
    Huge,
    /// By 4 KiB pages: Linux's zero page.
    Small,
    /// One 4 KiB page of a file, mapped once for each page of the range.
    Shown,
}

/// Read-only memory of zeros, aligned to 2 MiB.
#[derive(Debug)]
pub struct ZeroMemory {
    reservation: Reservation,
    offset: usize,
    len_bytes: usize,
}

const PAGE: usize = 4096;
const HUGE: usize = 2 << 20;

impl ZeroMemory {
    /// Memory of `len_bytes` bytes, not read yet.
    ///
    /// # Errors
    /// What the host says: of `Shown`, that a process may not have so many mappings. More bytes than there
    /// are addresses are out of memory.
    pub fn new(len_bytes: usize, pages: ZeroPages) -> Result<Self> {
        let padded = len_bytes.checked_add(HUGE).ok_or(ErrorKind::OutOfMemory)?;
        let reservation = Reservation::new(padded)?;
        let offset =
            reservation.start().addr().get().next_multiple_of(HUGE) - reservation.start().addr().get();
        let memory = Self { reservation, offset, len_bytes };
        match pages {
            ZeroPages::Huge => memory.read_by(libc::MADV_HUGEPAGE)?,
            ZeroPages::Small => memory.read_by(libc::MADV_NOHUGEPAGE)?,
            ZeroPages::Shown => memory.show_one()?,
        }
        Ok(memory)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `new` has made this part of the reservation readable, which nothing takes back as long as
        // the reservation lives; private memory that is never writable, or a file of zeros whose descriptor
        // was closed in `new`: it is never written.
        unsafe {
            std::slice::from_raw_parts(self.reservation.start().add(self.offset).as_ptr(), self.len_bytes)
        }
    }

    fn at(&self, offset: usize) -> *mut libc::c_void {
        self.reservation.start().as_ptr().wrapping_add(self.offset + offset).cast()
    }

    fn read_by(&self, advice: i32) -> Result<()> {
        // SAFETY: the range lies in the reservation, which is this value's; the advice changes no byte.
        let advised = unsafe { libc::madvise(self.at(0), self.len_bytes, advice) };
        // SAFETY: as above; reading is allowed, nothing is taken away.
        if advised != 0 || unsafe { libc::mprotect(self.at(0), self.len_bytes, libc::PROT_READ) } != 0 {
            return Err(Error::last_os_error());
        }
        Ok(())
    }

    fn show_one(&self) -> Result<()> {
        // SAFETY: the name is a C string; the call has no other argument in memory.
        let fd = unsafe { libc::memfd_create(c"zeros".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: the descriptor was just opened, and has no other owner.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(PAGE as u64)?;
        for offset in (0..self.len_bytes).step_by(PAGE) {
            let (prot, flags) = (libc::PROT_READ, libc::MAP_SHARED | libc::MAP_FIXED);
            // SAFETY: the page begins below `len_bytes`, which was padded by more than it may reach beyond:
            // it lies in the reservation, which is this value's, and was not read yet.
            let at = unsafe { libc::mmap(self.at(offset), PAGE, prot, flags, file.as_raw_fd(), 0) };
            if at == libc::MAP_FAILED {
                return Err(Error::last_os_error());
            }
        }
        Ok(())
    }
}

/// Bytes of this process that are resident, as the kernel counts them: zero pages are not.
pub fn resident_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    pages.checked_mul(PAGE as u64)
}

/// Page faults of this process that needed no I/O, so far.
pub fn minor_faults() -> u64 {
    // SAFETY: all zeros is a valid value of the structure, which outlives the call.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    usage.ru_minflt as u64
}

/// Bytes of this process's page tables.
pub fn table_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find(|line| line.starts_with("VmPTE:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
#[path = "tests/zero_memory.rs"]
mod tests;
