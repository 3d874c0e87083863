//! The files that there are: a few of Linux's, whose text tells of memory. Nothing can be written.
//!
//! | file | tells |
//! |---|---|
//! | `/proc/vmstat` | all counters of the library, by Linux's names where Linux has them |
//! | `/proc/meminfo` | memory, free memory, huge pages, tables |
//! | `/proc/self/status` | this process: its memory now and at its most, whether huge pages are disabled |
//! | `/proc/self/smaps_rollup` | this process: its memory now, and how much of it is huge pages |
//! | `/sys/kernel/mm/transparent_hugepage/enabled` | the policy, in brackets |
//! | `/sys/kernel/mm/transparent_hugepage/use_zero_page` | whether loads map the huge zero page |
//! | the same folder's `khugepaged/pages_collapsed`, `full_scans` | what khugepaged has done |
//! | `khugepaged/pages_to_scan`, `scan_sleep_millisecs` | how it goes about it |
//!
//! A file has no contents: each read makes its text anew and hands out the part that is asked for. So one
//! read that takes all has one moment's numbers.
#![forbid(unsafe_code)]

mod text;

use text::Window;

/// A file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File(usize);

/// Writes a file's text.
type Render = fn(&mut Window<'_>) -> core::fmt::Result;

/// By name.
const FILES: &[(&str, Render)] = &[
    ("/proc/vmstat", text::vmstat),
    ("/proc/meminfo", text::meminfo),
    ("/proc/self/status", text::status),
    ("/proc/self/smaps_rollup", text::smaps_rollup),
    ("/sys/kernel/mm/transparent_hugepage/enabled", text::enabled),
    ("/sys/kernel/mm/transparent_hugepage/use_zero_page", text::use_zero_page),
    ("/sys/kernel/mm/transparent_hugepage/khugepaged/pages_collapsed", text::pages_collapsed),
    ("/sys/kernel/mm/transparent_hugepage/khugepaged/full_scans", text::full_scans),
    ("/sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan", text::pages_to_scan),
    ("/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs", text::scan_sleep_millisecs),
];

/// Bytes of the longest name.
pub const LONGEST_NAME: usize = 96;

impl File {
    /// The file of a name.
    pub fn named(name: &[u8]) -> Option<Self> {
        FILES.iter().position(|(known, _)| known.as_bytes() == name).map(Self)
    }

    /// A number for it.
    pub fn number(self) -> u32 {
        self.0 as u32
    }

    /// The file of a [`number`](Self::number).
    pub fn numbered(number: u32) -> Option<Self> {
        let at = number as usize;
        (at < FILES.len()).then_some(Self(at))
    }

    /// Fills `to` with the text from byte `offset` on; returns how much there was. Of the process of the
    /// running thread, where a file is about that.
    pub fn read(self, offset: u32, to: &mut [u8]) -> usize {
        let mut window = Window::new(offset, to);
        let (_, render) = FILES[self.0];
        // A window takes any text, and keeps its part.
        let _ = render(&mut window);
        window.filled()
    }
}
