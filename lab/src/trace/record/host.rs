//! The facts about this machine that a trace's header keeps.

use crate::os::memory::lowest_hint;
use crate::os::process::{soft_limit, system_number};
use crate::trace::header::{Host, LOWEST_HINT, Limits, SWAP_BYTES};
use std::fs;

const SETTINGS: [&str; 14] = [
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/mm/transparent_hugepage/defrag",
    "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
    "/sys/kernel/mm/transparent_hugepage/use_zero_page",
    "/sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none",
    "/sys/kernel/mm/ksm/run",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/overcommit_ratio",
    "/proc/sys/vm/overcommit_kbytes",
    "/proc/sys/vm/max_map_count",
    "/proc/sys/vm/mmap_min_addr",
    "/proc/sys/vm/legacy_va_layout",
    "/proc/sys/kernel/randomize_va_space",
    "/proc/sys/kernel/perf_event_paranoid",
];

/// The machine.
pub fn host() -> Host {
    let read = |path: &str| fs::read_to_string(path).ok().map(|t| t.trim().to_string());
    let [release, version] = ["osrelease", "version"].map(|n| read(&format!("/proc/sys/kernel/{n}")));
    let names = SETTINGS.iter().map(ToString::to_string).chain(sizes_of_huge_pages());
    let settings = names.filter_map(|path| Some((path.clone(), read(&path)?)));
    let hint = lowest_hint().map(|at| (LOWEST_HINT.to_string(), at.to_string()));
    let swap = swap_bytes().map(|bytes| (SWAP_BYTES.to_string(), bytes.to_string()));
    let settings = settings.chain(hint).chain(swap);
    let page_bytes = system_number(libc::_SC_PAGESIZE);
    Host {
        kernel: format!("{} {}", release.unwrap_or_default(), version.unwrap_or_default()),
        cpus: system_number(libc::_SC_NPROCESSORS_ONLN) as u32,
        page_bytes,
        memory_bytes: system_number(libc::_SC_PHYS_PAGES) * page_bytes,
        settings: settings.collect(),
        clock: "CLOCK_MONOTONIC".into(),
    }
}

/// All swap that there is.
fn swap_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let total = text.lines().find_map(|line| line.strip_prefix("SwapTotal:"))?;
    total.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

/// The settings of each size of transparent huge pages that this kernel has.
fn sizes_of_huge_pages() -> Vec<String> {
    let Ok(entries) = fs::read_dir("/sys/kernel/mm/transparent_hugepage") else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path().to_str()?.to_string()));
    let mut settings: Vec<_> = paths.filter(|p| p.contains("/hugepages-")).map(|p| p + "/enabled").collect();
    settings.sort();
    settings
}

/// The limits that a program started now will have.
pub fn limits() -> Limits {
    Limits {
        stack_bytes: soft_limit(libc::RLIMIT_STACK),
        address_space_bytes: soft_limit(libc::RLIMIT_AS),
        data_bytes: soft_limit(libc::RLIMIT_DATA),
        locked_bytes: soft_limit(libc::RLIMIT_MEMLOCK),
    }
}

/// The numbers of the CPUs online.
pub fn cpus_online() -> Vec<u32> {
    let list = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_else(|_| "0".into());
    parse_list(list.trim())
}

/// More CPUs than a machine has.
const CPUS_MOST: usize = 1 << 16;

/// Reads `0-3,8`; at most `CPUS_MOST` numbers.
pub fn parse_list(list: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.split(',').filter_map(range).flatten().take(CPUS_MOST).collect()
}

#[cfg(test)]
#[path = "tests/host.rs"]
mod tests;
