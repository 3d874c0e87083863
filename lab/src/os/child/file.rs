//! The one file that a child's processes may map, read, write and shorten: in memory, and of no name.

use super::Child;
use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::FromRawFd;

/// The number of the file in the child's processes.
pub const FILE: u64 = 900;
/// Bytes of the file.
pub const FILE_BYTES: u64 = 8 * 4096;

/// Opens a file of zeros.
pub(super) fn open() -> Result<File> {
    // SAFETY: the name is a string that ends; the descriptor is new, and the caller's alone.
    let file = unsafe {
        let descriptor = libc::memfd_create(c"experiment".as_ptr(), libc::MFD_CLOEXEC);
        if descriptor < 0 {
            return Err(Error::last_os_error());
        }
        File::from_raw_fd(descriptor)
    };
    file.set_len(FILE_BYTES)?;
    Ok(file)
}

impl Child {
    /// Makes the file one of zeros, without a page.
    ///
    /// # Errors
    /// What Linux says.
    pub fn empty_file(&self) -> Result<()> {
        self.file.set_len(0)?;
        self.file.set_len(FILE_BYTES)
    }
}
