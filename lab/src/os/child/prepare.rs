//! Arranging a child's address space, before it is asked for steps: windows in which nothing of its own lies,
//! huge pages or none, a heap in a window, everything else taken, and no capabilities.

use super::step::Bounds;
use super::{Child, STEP_WORDS};
use crate::os::host_info;
use std::fs::read_to_string;
use std::io::{Error, Result};
use std::ops::Range;

/// `_LINUX_CAPABILITY_VERSION_3`.
const CAPABILITY_VERSION: u64 = 0x2008_0522;
/// `PR_SET_MM_MAP`.
const SET_MM_MAP: u64 = 14;
const PAGE: u64 = 4096;

/// Whether a child may have huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePages {
    /// As the host's setting says.
    AsSet,
    /// None (`PR_SET_THP_DISABLE`).
    Refused,
}

impl Child {
    /// Arranges the address space: `windows` become the ranges that steps may change, the heap starts at
    /// `start_brk` in one of them, and `taken` is made inaccessible, where nothing is mapped. Huge pages are
    /// as `huge` says.
    ///
    /// # Errors
    /// That a window is not free, that a part of `taken` is not, or what Linux refuses.
    ///
    /// # Panics
    /// Where the heap is to start outside of the windows, or a window or a part of `taken` is no range of
    /// pages.
    pub fn prepare(
        &mut self,
        windows: &[Range<u64>; 2],
        start_brk: u64,
        taken: &[Range<u64>],
        huge: HugePages,
    ) -> Result<()> {
        assert!(windows.iter().any(|window| window.contains(&start_brk)), "a heap outside of the windows");
        let is_of_pages =
            |range: &Range<u64>| range.start < range.end && (range.start | range.end).is_multiple_of(PAGE);
        assert!(windows.iter().chain(taken).all(is_of_pages), "a range that is not of pages");
        let reserve = |range: &Range<u64>| {
            let flags =
                libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
            let len = range.end - range.start;
            [libc::SYS_mmap as u64, range.start, len, 0, flags as u64, u64::MAX, 0]
        };
        // What can be mapped without replacing anything was free, and what is unmapped then is so again. A
        // process of one thread maps nothing in between.
        let mut words: Vec<[u64; STEP_WORDS]> = windows.iter().map(reserve).collect();
        let unmap = |window: &Range<u64>| {
            [libc::SYS_munmap as u64, window.start, window.end - window.start, 0, 0, 0, 0]
        };
        self.must_succeed(&words)?;
        words = windows.iter().map(unmap).collect();
        let refused = u64::from(huge == HugePages::Refused);
        words.push([libc::SYS_prctl as u64, libc::PR_SET_THP_DISABLE as u64, refused, 0, 0, 0, 0]);
        words.extend(taken.iter().map(reserve));
        let scratch = self.scratch_addr(0);
        let places = heap_places(self.pid(), start_brk)?;
        self.write_scratch(0, 0, &places);
        let len = places.len() as u64 * 8;
        words.push([libc::SYS_prctl as u64, libc::PR_SET_MM as u64, SET_MM_MAP, scratch, len, 0, 0]);
        self.write_scratch(0, 64, &[CAPABILITY_VERSION, 0, 0, 0]);
        words.push([libc::SYS_capset as u64, scratch + 64 * 8, scratch + 65 * 8, 0, 0, 0, 0]);
        self.must_succeed(&words)?;
        let (task_end, min_addr) = (host_info::task_end()?, host_info::mmap_min_addr()?);
        self.bounds = Some(Bounds { windows: windows.clone(), task_end, min_addr });
        Ok(())
    }

    /// Carries out calls of this file, none of which may fail.
    fn must_succeed(&mut self, calls: &[[u64; STEP_WORDS]]) -> Result<()> {
        let results = self.carry_out(0, calls)?;
        match results.iter().position(|&result| result > u64::MAX - PAGE) {
            None => Ok(()),
            Some(at) => {
                let error = Error::from_raw_os_error(-(results[at] as i64) as i32);
                Err(Error::other(format!("leave to arrange a child's address space (call {at}: {error})")))
            }
        }
    }
}

/// The kernel's `struct prctl_mm_map` for `pid`, with the heap at `start_brk`.
fn heap_places(pid: i32, start_brk: u64) -> Result<Vec<u64>> {
    let stat = read_to_string(format!("/proc/{pid}/stat"))?;
    let after_name = stat.rsplit_once(") ").ok_or_else(|| Error::other("no name in /proc/PID/stat"))?.1;
    let fields: Vec<u64> = after_name.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
    // Counted as proc(5) does: the first field after the name is the third.
    let field = |number: usize| fields.get(number - 3).copied().unwrap_or(0);
    let (brk, no_auxv, no_exe) = (start_brk, 0, 0xffff_ffff << 32);
    let code_and_data = [field(26), field(27), field(45), field(46)];
    let rest = [brk, brk, field(28), field(48), field(49), field(50), field(51), no_auxv, no_exe];
    Ok(code_and_data.into_iter().chain(rest).collect())
}
