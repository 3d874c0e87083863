//! What the files say, in Linux's words.

use crate::arch::percpu;
use crate::memory::vm;
use crate::task::{khugepaged, process};
use core::fmt::{Result, Write};
use interleaf::frame::HugetlbCounts;
use interleaf::space::Counter;
use interleaf::table::Resident;
use interleaf::units::{PAGE_SIZE, PageSize};
use interleaf::vma::{HugePolicy, ThpDisable, ZeroPagePolicy};

const PAGE_KIB: u64 = PAGE_SIZE as u64 / 1024;
const HUGE_KIB: u64 = PageSize::Huge.bytes() / 1024;

/// A part of a text: what is written before it is passed over, what comes behind it is dropped.
pub struct Window<'a> {
    skip: usize,
    to: &'a mut [u8],
    filled: usize,
}

impl<'a> Window<'a> {
    /// The part from byte `offset` on, as long as `to`.
    pub fn new(offset: u32, to: &'a mut [u8]) -> Self {
        Self { skip: offset as usize, to, filled: 0 }
    }

    /// Bytes that there were.
    pub fn filled(&self) -> usize {
        self.filled
    }
}

impl Write for Window<'_> {
    fn write_str(&mut self, text: &str) -> Result {
        let bytes = text.as_bytes();
        let passed = self.skip.min(bytes.len());
        self.skip -= passed;
        let (bytes, room) = (&bytes[passed..], &mut self.to[self.filled..]);
        let taken = bytes.len().min(room.len());
        room[..taken].copy_from_slice(&bytes[..taken]);
        self.filled += taken;
        Ok(())
    }
}

pub fn vmstat(to: &mut Window<'_>) -> Result {
    writeln!(to, "nr_free_pages {}", free_pages())?;
    vm().totals().iter().try_for_each(|(counter, total)| writeln!(to, "{} {total}", counter.name()))?;
    // There are no control groups that could refuse a charge, and a split is never put off.
    writeln!(to, "thp_fault_fallback_charge 0\nthp_deferred_split_page 0")
}

/// Frames in the zones, and in CPUs' caches.
fn free_pages() -> u64 {
    let stats = vm().memory().stats();
    stats.free() + stats.cached
}

pub fn meminfo(to: &mut Window<'_>) -> Result {
    let (managed, totals) = (vm().memory().stats().managed, vm().totals());
    let tables = totals.get(Counter::TableAlloc).saturating_sub(totals.get(Counter::TableFree));
    kib(to, "MemTotal:  ", managed * PAGE_KIB)?;
    kib(to, "MemFree:   ", free_pages() * PAGE_KIB)?;
    kib(to, "PageTables:", tables * PAGE_KIB)?;
    kib(to, "AnonHugePages:", totals.get(Counter::NrAnonTransparentHugepages) * HUGE_KIB)?;
    let HugetlbCounts { total, free, reserved, surplus, .. } = vm().memory().hugetlb().counts(PageSize::Huge);
    for (name, count) in [("Total:", total), ("Free: ", free), ("Rsvd: ", reserved), ("Surp: ", surplus)] {
        writeln!(to, "HugePages_{name} {count:7}")?;
    }
    kib(to, "Hugepagesize:  ", HUGE_KIB)?;
    let all = [PageSize::Huge, PageSize::Giant]
        .map(|size| vm().memory().hugetlb().counts(size).total * size.bytes());
    kib(to, "Hugetlb:       ", all.iter().sum::<u64>() / 1024)
}

pub fn status(to: &mut Window<'_>) -> Result {
    let process = process::current();
    let resident = process.count_resident();
    writeln!(to, "Pid:\t{}\nPPid:\t{}", process.number(), process.parent())?;
    kib(to, "VmHWM:\t", process.peak_pages() * PAGE_KIB)?;
    kib(to, "VmRSS:\t", resident.pages() * PAGE_KIB)?;
    let thp_disable =
        percpu::thread().with_space(|space| space.expect("a program's thread has a space").thp_disable());
    writeln!(to, "THP_enabled:\t{}", u8::from(thp_disable != ThpDisable::Completely))
}

pub fn smaps_rollup(to: &mut Window<'_>) -> Result {
    let resident: Resident = process::current().count_resident();
    kib(to, "Rss:       ", resident.pages() * PAGE_KIB)?;
    kib(to, "AnonHugePages:", resident.huge_pages * HUGE_KIB)
}

pub fn enabled(to: &mut Window<'_>) -> Result {
    let policy = vm().huge_policy();
    let names =
        [("always", HugePolicy::Always), ("madvise", HugePolicy::Madvise), ("never", HugePolicy::Never)];
    for (at, (name, named)) in names.into_iter().enumerate() {
        let space = if at == 0 { "" } else { " " };
        if named == policy { write!(to, "{space}[{name}]")? } else { write!(to, "{space}{name}")? }
    }
    writeln!(to)
}

pub fn use_zero_page(to: &mut Window<'_>) -> Result {
    writeln!(to, "{}", u8::from(matches!(vm().zero_page(), ZeroPagePolicy::Huge | ZeroPagePolicy::Virtual)))
}

pub fn pages_collapsed(to: &mut Window<'_>) -> Result {
    writeln!(to, "{}", khugepaged::told().pages_collapsed)
}

pub fn full_scans(to: &mut Window<'_>) -> Result {
    writeln!(to, "{}", khugepaged::told().full_scans)
}

pub fn pages_to_scan(to: &mut Window<'_>) -> Result {
    writeln!(to, "{}", khugepaged::told().scan.pages)
}

pub fn scan_sleep_millisecs(to: &mut Window<'_>) -> Result {
    writeln!(to, "{}", khugepaged::told().scan.sleep_ms)
}

fn kib(to: &mut Window<'_>, name: &str, kib: u64) -> Result {
    writeln!(to, "{name} {kib:8} kB")
}
