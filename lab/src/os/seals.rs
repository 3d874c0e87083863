//! A file in memory that may be sealed, as Linux answers to calls about it.

use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;

const PAGE: usize = 4096;

/// A file of `memfd_create` that takes seals.
#[derive(Debug)]
pub struct SealedFile(File);

/// A page of it, mapped until this is dropped.
#[derive(Debug)]
pub struct MappedPage(*mut libc::c_void);

/// The error number of what was refused, 0 for what was done.
fn number<T>(done: &Result<T>) -> i32 {
    done.as_ref().err().and_then(Error::raw_os_error).unwrap_or(0)
}

impl SealedFile {
    /// A file of so many pages of zeros.
    ///
    /// # Errors
    /// What Linux says.
    pub fn new(pages: u64) -> Result<Self> {
        // SAFETY: the name is a string that ends; the descriptor is new, and the caller's alone.
        let file = unsafe {
            let descriptor =
                libc::memfd_create(c"sealed".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
            if descriptor < 0 {
                return Err(Error::last_os_error());
            }
            File::from_raw_fd(descriptor)
        };
        file.set_len(pages * PAGE as u64)?;
        Ok(Self(file))
    }

    /// fcntl(2) of `F_ADD_SEALS`; the error number, 0 for none.
    #[must_use]
    pub fn add(&self, seals: u32) -> i32 {
        // SAFETY: changes the seals of a file that this value owns.
        let done = unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_ADD_SEALS, seals) };
        number(&if done < 0 { Err(Error::last_os_error()) } else { Ok(()) })
    }

    /// ftruncate(2), in pages; likewise.
    #[must_use]
    pub fn set_len(&self, pages: u64) -> i32 {
        number(&self.0.set_len(pages * PAGE as u64))
    }

    /// pwrite(2); how many bytes, or the error number, negative.
    #[must_use]
    pub fn write(&self, offset: u64, bytes: &[u8]) -> i64 {
        let done = self.0.write_at(bytes, offset);
        done.as_ref().map_or_else(|_| -i64::from(number(&done)), |&bytes| bytes as i64)
    }

    /// fallocate(2), a hole of one page; the error number, 0 for none.
    #[must_use]
    pub fn punch_hole(&self, page: u64) -> i32 {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let (offset, len) = ((page * PAGE as u64) as i64, PAGE as i64);
        // SAFETY: changes the contents of a file that this value owns, and of which no reference is left.
        let done = unsafe { libc::fallocate(self.0.as_raw_fd(), mode, offset, len) };
        number(&if done < 0 { Err(Error::last_os_error()) } else { Ok(()) })
    }

    /// mmap(2) of the first page.
    ///
    /// # Errors
    /// The error number.
    pub fn map(&self, prot: i32, flags: i32) -> std::result::Result<MappedPage, i32> {
        // SAFETY: a new mapping where the kernel likes; nothing borrows it.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), PAGE, prot, flags, self.0.as_raw_fd(), 0) };
        if at == libc::MAP_FAILED {
            return Err(number::<()>(&Err(Error::last_os_error())));
        }
        Ok(MappedPage(at))
    }
}

impl MappedPage {
    /// mprotect(2); the error number, 0 for none.
    #[must_use]
    pub fn protect(&self, prot: i32) -> i32 {
        // SAFETY: changes the rights of a mapping that this value owns and nothing borrows.
        let done = unsafe { libc::mprotect(self.0, PAGE, prot) };
        number(&if done < 0 { Err(Error::last_os_error()) } else { Ok(()) })
    }

    /// madvise(2) of `MADV_REMOVE`; likewise.
    #[must_use]
    pub fn remove(&self) -> i32 {
        // SAFETY: the contents of a mapping that this value owns and nothing borrows become zeros.
        let done = unsafe { libc::madvise(self.0, PAGE, libc::MADV_REMOVE) };
        number(&if done < 0 { Err(Error::last_os_error()) } else { Ok(()) })
    }
}

impl Drop for MappedPage {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, which ends; nothing borrows it.
        unsafe { libc::munmap(self.0, PAGE) };
    }
}
