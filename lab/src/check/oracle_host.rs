//! Arranging the oracle's child: its address space, and whether this host is suitable.

use super::calls::{MapFlags, PAGE, Prot};
use super::setting::Setting;
use crate::os::child::{Child, Step};
use std::fs::read_to_string;
use std::io::{Error, Result};
use std::ops::Range;

/// `_LINUX_CAPABILITY_VERSION_3`.
const CAPABILITY_VERSION: u64 = 0x2008_0522;
/// `PR_SET_MM_MAP`.
const SET_MM_MAP: u64 = 14;

/// One line of `/proc/PID/maps`. Addresses in bytes.
#[derive(Clone, Debug)]
pub(crate) struct HostLine {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) prot: Prot,
    pub(super) shared: bool,
    pub(super) offset: u64,
    pub(super) inode: u64,
}

impl HostLine {
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
    Some(HostLine { start: hex(start)?, end: hex(end)?, prot, shared: letters.ends_with('s'), offset, inode })
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

/// Fills the child's address space but for the windows, puts its heap there, takes huge pages and
/// capabilities from it.
pub(super) fn prepare(child: &mut Child, start_brk: u64) -> Result<Setting> {
    let mut setting = Setting { start_brk, ..host_limits()? };
    let taken = lines(child.pid())?;
    let mut steps = vec![Step::new(libc::SYS_prctl as u64, &[libc::PR_SET_THP_DISABLE as u64, 1])];
    for gap in gaps(&setting, &taken)? {
        let flags = MapFlags::SHARED | MapFlags::ANONYMOUS | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
        let args = [gap.start, gap.end - gap.start, 0, flags.bits().into(), u64::MAX, 0];
        steps.push(Step::new(libc::SYS_mmap as u64, &args));
    }
    let scratch = child.scratch_addr();
    let places = heap_places(child.pid(), &setting)?;
    let len = places.len() as u64 * 8;
    child.write_scratch(0, &places);
    steps.push(Step::new(libc::SYS_prctl as u64, &[libc::PR_SET_MM as u64, SET_MM_MAP, scratch, len]));
    child.write_scratch(64, &[CAPABILITY_VERSION, 0, 0, 0]);
    steps.push(Step::new(libc::SYS_capset as u64, &[scratch + 64 * 8, scratch + 65 * 8]));
    let results = child.run(&steps)?;
    if let Some(at) = results.iter().position(|&result| result > u64::MAX - PAGE) {
        let error = Error::from_raw_os_error(-(results[at] as i64) as i32);
        return Err(unfit(&format!("leave to arrange a child's address space (step {at}: {error})")));
    }
    let own = 3;
    setting.foreign_mappings =
        lines(child.pid())?.iter().filter(|line| line.end <= setting.task_end).count() - own;
    Ok(setting)
}

/// Steps that empty the windows: covered first, so that the heap, whatever became of it, can be shrunk.
pub(super) fn reset(setting: &Setting) -> Vec<Step> {
    let [low, main] = &setting.windows;
    let cover = MapFlags::PRIVATE | MapFlags::ANONYMOUS | MapFlags::NORESERVE | MapFlags::FIXED;
    let len = |window: &Range<u64>| window.end - window.start;
    vec![
        Step::new(libc::SYS_mmap as u64, &[main.start, len(main), 0, cover.bits().into(), u64::MAX, 0]),
        Step::new(libc::SYS_brk as u64, &[setting.start_brk]),
        Step::new(libc::SYS_munmap as u64, &[low.start, len(low)]),
        Step::new(libc::SYS_munmap as u64, &[main.start, len(main)]),
    ]
}

fn host_limits() -> Result<Setting> {
    let number = |path: &str| -> Result<u64> {
        read_to_string(path)?.trim().parse().map_err(|_| unfit(&format!("a number in {path}")))
    };
    let min_addr = number("/proc/sys/vm/mmap_min_addr")?.max(PAGE);
    let max_mappings = number("/proc/sys/vm/max_map_count")? as usize;
    let meminfo = read_to_string("/proc/meminfo")?;
    let kilobytes = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok())
    };
    let total = kilobytes("MemTotal:")
        .zip(kilobytes("SwapTotal:"))
        .ok_or_else(|| unfit("MemTotal in /proc/meminfo"))?;
    let memory_pages = (total.0 + total.1) / 4;
    // With five-level tables user space is larger, though Linux places nothing there unasked.
    let cpu = read_to_string("/proc/cpuinfo")?;
    let five_levels = cpu.split_whitespace().any(|flag| flag == "la57");
    let task_end = (1 << if five_levels { 56 } else { 47 }) - PAGE;
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

/// The kernel's `struct prctl_mm_map` for `pid` with the heap at the start of the experiment's.
fn heap_places(pid: i32, setting: &Setting) -> Result<Vec<u64>> {
    let stat = read_to_string(format!("/proc/{pid}/stat"))?;
    let after_name = stat.rsplit_once(") ").ok_or_else(|| unfit("/proc/PID/stat"))?.1;
    let fields: Vec<u64> = after_name.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
    // Counted as proc(5) does: the first field after the name is the third.
    let field = |number: usize| fields.get(number - 3).copied().unwrap_or(0);
    let (brk, no_auxv, no_exe) = (setting.start_brk, 0, 0xffff_ffff << 32);
    let code_and_data = [field(26), field(27), field(45), field(46)];
    let rest = [brk, brk, field(28), field(48), field(49), field(50), field(51), no_auxv, no_exe];
    Ok(code_and_data.into_iter().chain(rest).collect())
}

fn unfit(what: &str) -> Error {
    Error::other(format!("the oracle needs {what}"))
}
