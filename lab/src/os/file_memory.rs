//! A file of the host's in memory, mapped several times: what Linux takes for its pages.

use super::memory::Reservation;
use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::{AsRawFd, FromRawFd};

/// A file without a name, and shared mappings of all of it, each in a place of its own.
#[derive(Debug)]
pub struct FileMemory {
    file: File,
    len_bytes: usize,
    mappings: Vec<Reservation>,
}

/// The access with which pages are made present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PopulateBy {
    /// Loads: pages around the one of a load are mapped with it.
    Loads,
    /// Stores: each page takes a fault of its own.
    Stores,
}

impl FileMemory {
    /// A file of this length without pages, which is a multiple of a page, mapped so often.
    ///
    /// # Errors
    /// What the host says.
    pub fn new(len_bytes: usize, mappings: usize) -> Result<Self> {
        // SAFETY: the name is a C string; the call has no other argument in memory.
        let fd = unsafe { libc::memfd_create(c"pages".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: the descriptor was just opened, and has no other owner.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(len_bytes as u64)?;
        let mappings = (0..mappings).map(|_| mapping_of(&file, len_bytes)).collect::<Result<_>>()?;
        Ok(Self { file, len_bytes, mappings })
    }

    /// Makes all pages present in every mapping, by faults of one call: without traps.
    ///
    /// # Errors
    /// What the host says.
    pub fn populate(&self, by: PopulateBy) -> Result<()> {
        self.advise(match by {
            PopulateBy::Loads => libc::MADV_POPULATE_READ,
            PopulateBy::Stores => libc::MADV_POPULATE_WRITE,
        })
    }

    /// Clears the entries of every mapping. The file keeps its pages.
    ///
    /// # Errors
    /// What the host says.
    pub fn drop_entries(&self) -> Result<()> {
        self.advise(libc::MADV_DONTNEED)
    }

    /// Makes the file one of no bytes: its pages go, out of the mappings too.
    ///
    /// # Errors
    /// What the host says.
    pub fn truncate(&self) -> Result<()> {
        self.file.set_len(0)
    }

    /// Gives it its length again, without pages.
    ///
    /// # Errors
    /// What the host says.
    pub fn extend(&self) -> Result<()> {
        self.file.set_len(self.len_bytes as u64)
    }

    fn advise(&self, advice: i32) -> Result<()> {
        for mapping in &self.mappings {
            // SAFETY: the range is a reservation of this value's, which maps the file since `new`. The advice
            // makes pages of it present, or drops entries: no byte of the file changes, no reference to one
            // exists.
            let advised = unsafe { libc::madvise(mapping.start().as_ptr().cast(), self.len_bytes, advice) };
            if advised != 0 {
                return Err(Error::last_os_error());
            }
        }
        Ok(())
    }
}

fn mapping_of(file: &File, len_bytes: usize) -> Result<Reservation> {
    let reservation = Reservation::new(len_bytes)?;
    let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
    let at = reservation.start().as_ptr().cast();
    // SAFETY: the range is the whole reservation, which was made just now: nothing uses its addresses.
    let mapped = unsafe { libc::mmap(at, len_bytes, prot, flags, file.as_raw_fd(), 0) };
    if mapped == libc::MAP_FAILED { Err(Error::last_os_error()) } else { Ok(reservation) }
}

#[cfg(test)]
#[path = "tests/file_memory.rs"]
mod tests;
