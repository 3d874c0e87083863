//! Arranging the oracle's child: its address space, and whether this host is suitable.

use super::calls::{MapFlags, Prot};
use super::huge_rules::HugeSetting;
use super::processes::ForkAdvice;
use super::setting::Setting;
use interleaf_lab::os::child::{Child, HugePages, Step};
use interleaf_lab::os::host_info;
use std::fs::read_to_string;
use std::io::{Error, Result};
use std::ops::Range;

/// One line of `/proc/PID/maps`. Addresses in bytes.
#[derive(Clone, Debug)]
pub(crate) struct HostLine {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) prot: Prot,
    pub(super) shared: bool,
    pub(super) offset: u64,
    pub(super) inode: u64,
    /// `AnonHugePages`, where `/proc/PID/smaps` was read.
    pub(super) anon_huge_bytes: u64,
}

impl HostLine {
    /// Whether it shows an object: shared memory, or the file, also private.
    pub(super) fn shows_object(&self) -> bool {
        self.shared || self.inode != 0
    }

    pub(super) fn range(&self) -> Range<u64> {
        self.start..self.end
    }
}

/// The map of process `pid`.
pub(super) fn lines(pid: i32) -> Result<Vec<HostLine>> {
    let text = read_to_string(format!("/proc/{pid}/maps"))?;
    text.lines().map(|line| parse_line(line).ok_or_else(|| unfit(&format!("maps line {line}")))).collect()
}

/// `start-end rwxp offset dev inode name`.
pub(crate) fn parse_line(line: &str) -> Option<HostLine> {
    let mut fields = line.split_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let letters = fields.next()?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let mut prot = Prot::empty();
    for (letter, right) in [('r', Prot::READ), ('w', Prot::WRITE), ('x', Prot::EXEC)] {
        prot.set(right, letters.contains(letter));
    }
    let offset = hex(fields.next()?)?;
    let inode = fields.nth(1)?.parse().ok()?;
    let (start, end, shared) = (hex(start)?, hex(end)?, letters.ends_with('s'));
    Some(HostLine { start, end, prot, shared, offset, inode, anon_huge_bytes: 0 })
}

/// The map of process `pid`, and the mappings for which there is advice about children, by the letters of
/// `VmFlags`: from one reading of `/proc/PID/smaps`, which begins each mapping with its line of `maps`.
pub(super) fn lines_and_advice(pid: i32) -> Result<(Vec<HostLine>, Vec<ForkAdvice>)> {
    let text = read_to_string(format!("/proc/{pid}/smaps"))?;
    let (mut lines, mut advice) = (Vec::<HostLine>::new(), Vec::new());
    for line in text.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            let has = |letters| flags.split_whitespace().any(|flag| flag == letters);
            let start = lines.last().map_or(0, |line| line.start);
            advice.extend(ForkAdvice::of(start, has("dc"), has("wf")));
        } else if let Some(size) = line.strip_prefix("AnonHugePages:") {
            let kilobytes = size.trim_end_matches("kB").trim().parse::<u64>();
            if let (Some(line), Ok(kilobytes)) = (lines.last_mut(), kilobytes) {
                line.anon_huge_bytes = kilobytes << 10;
            }
        } else if !line.ends_with(" kB") {
            lines.extend(parse_line(line));
        }
    }
    Ok((lines, advice))
}

/// Whether this host's Linux is the one that the model describes.
pub(super) fn fit() -> Result<()> {
    let release = read_to_string("/proc/sys/kernel/osrelease")?;
    let mut numbers = release.split(['.', '-']).map_while(|number| number.trim().parse::<u32>().ok());
    if (numbers.next(), numbers.next()) < (Some(6), Some(18)) {
        return Err(unfit(&format!("Linux 6.18 or later, not {}", release.trim())));
    }
    if read_to_string("/proc/sys/vm/overcommit_memory")?.trim() != "0" {
        return Err(unfit("vm.overcommit_memory = 0"));
    }
    if read_to_string("/proc/sys/vm/legacy_va_layout")?.trim() != "0" || stack_is_unlimited()? {
        return Err(unfit("mappings placed downwards: vm.legacy_va_layout = 0 and a limited stack"));
    }
    let shmem =
        read_to_string("/sys/kernel/mm/transparent_hugepage/shmem_enabled").unwrap_or("[never]".into());
    if !shmem.contains("[never]") {
        return Err(unfit("transparent_hugepage/shmem_enabled = never"));
    }
    Ok(())
}

/// Without a limit on the stack Linux places mappings upwards.
fn stack_is_unlimited() -> Result<bool> {
    let limits = read_to_string("/proc/self/limits")?;
    let stack = limits.lines().find_map(|line| line.strip_prefix("Max stack size"));
    Ok(stack.is_some_and(|stack| stack.trim_start().starts_with("unlimited")))
}

/// Fills the child's address space but for the windows, puts its heap there, takes capabilities from it, and
/// huge pages where the policy gives none.
pub(super) fn prepare(child: &mut Child, start_brk: u64, huge: HugeSetting) -> Result<Setting> {
    let mut setting = Setting { start_brk, huge, ..host_limits()? };
    let gaps = gaps(&setting, &lines(child.pid())?)?;
    let pages = if huge.is_never() { HugePages::Refused } else { HugePages::AsSet };
    child.prepare(&setting.windows, start_brk, &gaps, pages).map_err(|error| unfit(&error.to_string()))?;
    let own = 3;
    setting.foreign_mappings =
        lines(child.pid())?.iter().filter(|line| line.end <= setting.task_end).count() - own;
    Ok(setting)
}

/// Steps that empty the windows: covered first, so that the heap, whatever became of it, can be shrunk.
pub(super) fn reset(setting: &Setting) -> Vec<Step> {
    let [low, main] = &setting.windows;
    let cover = MapFlags::PRIVATE | MapFlags::ANONYMOUS | MapFlags::NORESERVE | MapFlags::FIXED;
    let flags = cover.bits();
    let len = |window: &Range<u64>| window.end - window.start;
    vec![
        Step::Map { hint: main.start, len: len(main), prot: 0, flags },
        Step::Break { end: setting.start_brk },
        Step::Unmap { addr: low.start, len: len(low) },
        Step::Unmap { addr: main.start, len: len(main) },
    ]
}

fn host_limits() -> Result<Setting> {
    let min_addr = host_info::mmap_min_addr()?;
    let max_mappings = host_info::number("/proc/sys/vm/max_map_count")? as usize;
    let meminfo = read_to_string("/proc/meminfo")?;
    let kilobytes = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok())
    };
    let total = kilobytes("MemTotal:")
        .zip(kilobytes("SwapTotal:"))
        .ok_or_else(|| unfit("MemTotal in /proc/meminfo"))?;
    let memory_pages = (total.0 + total.1) / 4;
    let task_end = host_info::task_end()?;
    Ok(Setting { task_end, min_addr, max_mappings, memory_pages, ..Setting::default() })
}

/// The free ranges of user space outside the windows.
fn gaps(setting: &Setting, taken: &[HostLine]) -> Result<Vec<Range<u64>>> {
    let inside = |line: &&HostLine| setting.windows.iter().any(|w| line.start < w.end && w.start < line.end);
    if let Some(line) = taken.iter().find(inside) {
        return Err(unfit(&format!("free windows; {:#x} is taken", line.start)));
    }
    let mut ranges: Vec<Range<u64>> =
        taken.iter().map(HostLine::range).chain(setting.windows.clone()).collect();
    ranges.push(setting.task_end..u64::MAX);
    ranges.sort_by_key(|range| range.start);
    let mut gaps = Vec::new();
    let mut free_from = setting.min_addr;
    for range in ranges {
        let end = range.start.min(setting.task_end);
        if end > free_from {
            gaps.push(free_from..end);
        }
        free_from = free_from.max(range.end);
    }
    Ok(gaps)
}

pub(super) fn unfit(what: &str) -> Error {
    Error::other(format!("the oracle needs {what}"))
}
