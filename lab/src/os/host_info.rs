//! The machine a figure was taken on, in the words Linux uses for it.

#[cfg(feature = "experiments")]
use serde::Serialize;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Error, Result};
use std::path::Path;

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
    /// What governs the frequency of the CPUs, as cpufreq has it; several where CPUs differ.
    pub governor: String,
    /// Whether CPUs may exceed their nominal frequency: `on` or `off`.
    pub turbo: String,
    /// The driver of idle states; `none` where there is none.
    pub idle: String,
}

/// What stands for a setting that the system does not tell, as in many virtual machines.
pub const NOT_TOLD: &str = "not told";

impl HostInfo {
    /// Reads the setting of this machine; what cannot be read is called `unknown`.
    pub fn of_this_machine() -> HostInfo {
        HostInfo {
            processor: field_of("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory_bytes().unwrap_or(0),
            kernel: first_line("/proc/sys/kernel/osrelease").unwrap_or_else(unknown),
            huge: huge_mode().unwrap_or_else(unknown),
            governor: governor(Path::new(CPU)).unwrap_or_else(not_told),
            turbo: turbo(Path::new(CPU)).unwrap_or_else(not_told),
            idle: idle(Path::new(CPU)).unwrap_or_else(not_told),
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

    /// What changes the speed of CPUs from one moment to the next, as one line.
    pub fn power_line(&self) -> String {
        format!("governor {}, turbo {}, idle states {}", self.governor, self.turbo, self.idle)
    }
}

/// Where the system tells about CPUs.
const CPU: &str = "/sys/devices/system/cpu";

/// The governors of all CPUs, each once.
fn governor(cpus: &Path) -> Option<String> {
    let folders = fs::read_dir(cpus).ok()?.flatten();
    let told = folders.filter_map(|cpu| first_line(cpu.path().join("cpufreq/scaling_governor")));
    let told: BTreeSet<String> = told.filter(|governor| !governor.is_empty()).collect();
    if told.is_empty() { None } else { Some(told.into_iter().collect::<Vec<_>>().join(" and ")) }
}

/// intel_pstate says when turbo is off, other drivers when it is on.
fn turbo(cpus: &Path) -> Option<String> {
    let off = |file: &str, off: &str| Some(first_line(cpus.join(file))? == off);
    let is_off = off("intel_pstate/no_turbo", "1").or_else(|| off("cpufreq/boost", "0"))?;
    Some(if is_off { "off" } else { "on" }.to_string())
}

fn idle(cpus: &Path) -> Option<String> {
    first_line(cpus.join("cpuidle/current_driver")).filter(|driver| !driver.is_empty())
}

fn not_told() -> String {
    NOT_TOLD.to_string()
}

fn unknown() -> String {
    "unknown".to_string()
}

/// The first line of a file, trimmed.
pub fn first_line(path: impl AsRef<Path>) -> Option<String> {
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

#[cfg(test)]
#[path = "tests/host_info.rs"]
mod tests;
