//! Which pages of a process are present, which are the zero page, and which lie in huge leaves:
//! `PAGEMAP_SCAN`, since Linux 6.7.

use std::fs::File;
use std::io::{Error, Result};
use std::ops::Range;
use std::os::fd::AsRawFd;

/// `PAGEMAP_SCAN`: `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: u64 = 0xc060_6610;
/// The page is one of a file.
const FILE: u64 = 1 << 2;
/// The page is mapped by a present entry.
const PRESENT: u64 = 1 << 3;
/// The page is the zero page.
const ZERO: u64 = 1 << 5;
/// The page is mapped by an entry of 2 MiB.
const HUGE: u64 = 1 << 6;
/// Ranges asked for at a time.
const RANGES: usize = 256;

/// The kernel's `struct pm_scan_arg`.
#[repr(C)]
#[derive(Default)]
struct ScanArg {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// The kernel's `struct page_region`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// Present pages, upwards.
#[derive(Clone, Debug)]
pub struct Present {
    /// Addresses in bytes.
    pub range: Range<u64>,
    /// Whether they are the zero page.
    pub zero: bool,
    /// Whether they lie in huge leaves.
    pub huge: bool,
    /// Whether they are pages of a file, and not copies of such.
    pub file: bool,
}

/// The present pages of `range` in the process whose `/proc/PID/pagemap` is `pagemap`.
///
/// # Errors
/// What Linux says; `ENOTTY` before 6.7.
pub fn present(pagemap: &File, range: &Range<u64>) -> Result<Vec<Present>> {
    let mut found = Vec::new();
    let mut start = range.start;
    while start < range.end {
        let mut regions = [Region::default(); RANGES];
        let mut arg = ScanArg {
            size: size_of::<ScanArg>() as u64,
            start,
            end: range.end,
            vec: regions.as_mut_ptr() as u64,
            vec_len: RANGES as u64,
            category_mask: PRESENT,
            return_mask: PRESENT | ZERO | HUGE | FILE,
            ..ScanArg::default()
        };
        // SAFETY: `arg` is the structure this request takes, it says its size, and it names `regions`, which
        // has room for as many as it says; both outlive the call.
        let count = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut arg) };
        let count = usize::try_from(count).map_err(|_| Error::last_os_error())?;
        found.extend(regions[..count].iter().map(|seen| Present {
            range: seen.start..seen.end,
            zero: seen.categories & ZERO != 0,
            huge: seen.categories & HUGE != 0,
            file: seen.categories & FILE != 0,
        }));
        start = arg.walk_end;
    }
    Ok(found)
}
