//! The machine a figure was taken on, in the words Linux uses for it.

#[cfg(feature = "experiments")]
use serde::Serialize;
use std::fs;
use std::io::{Error, Result};

/// What a reader needs to know about the machine to judge a figure.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "experiments", derive(Serialize))]
pub struct HostInfo {
    /// The processor's name.
    pub processor: String,
    /// CPUs this process may run on.
    pub cpus: usize,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// The kernel's release.
    pub kernel: String,
    /// The mode of transparent huge pages: `always`, `madvise` or `never`.
    pub huge: String,
}

impl HostInfo {
    /// Reads the setting of this machine; what cannot be read is called `unknown`.
    pub fn of_this_machine() -> HostInfo {
        HostInfo {
            processor: field_of("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory_bytes().unwrap_or(0),
            kernel: first_line("/proc/sys/kernel/osrelease").unwrap_or_else(unknown),
            huge: huge_mode().unwrap_or_else(unknown),
        }
    }

    /// The setting as one line.
    pub fn line(&self) -> String {
        let gib = self.memory_bytes as f64 / (1u64 << 30) as f64;
        format!(
            "{}, {} CPUs, {gib:.0} GiB, Linux {}, THP {}",
            self.processor, self.cpus, self.kernel, self.huge
        )
    }
}

fn unknown() -> String {
    "unknown".to_string()
}

/// The first line of a file, trimmed.
pub fn first_line(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()?.lines().next().map(|l| l.trim().to_string())
}

fn field_of(path: &str, field: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|l| l.starts_with(field))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

fn memory_bytes() -> Option<u64> {
    let field = field_of("/proc/meminfo", "MemTotal")?;
    let kib: u64 = field.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// The word in brackets: `always [madvise] never` is `madvise`.
fn huge_mode() -> Option<String> {
    let line = first_line("/sys/kernel/mm/transparent_hugepage/enabled")?;
    Some(line.split_once('[')?.1.split_once(']')?.0.to_string())
}

/// The number that a file of `/proc` or `/sys` holds.
///
/// # Errors
/// That it cannot be read, or holds none.
pub fn number(path: &str) -> Result<u64> {
    fs::read_to_string(path)?.trim().parse().map_err(|_| Error::other(format!("no number in {path}")))
}

/// The first byte after user space.
///
/// # Errors
/// What Linux says of `/proc/cpuinfo`.
pub fn task_end() -> Result<u64> {
    // With five-level tables user space is larger, though Linux places nothing there unasked.
    let cpu = fs::read_to_string("/proc/cpuinfo")?;
    let five_levels = cpu.split_whitespace().any(|flag| flag == "la57");
    Ok((1 << if five_levels { 56 } else { 47 }) - 4096)
}

/// The first byte that a process without capabilities may map.
///
/// # Errors
/// As [`number`].
pub fn mmap_min_addr() -> Result<u64> {
    Ok(number("/proc/sys/vm/mmap_min_addr")?.max(4096))
}
