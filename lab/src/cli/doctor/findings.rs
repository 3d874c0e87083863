//! What the experiments want of a machine, one finding each.
//!
//! Nothing here is needed for the library, its tests or the tour. A finding says what was seen, what lacks
//! without it, and the command that helps.

use crate::boot::{image, probe};
use crate::os::host_info::{HostInfo, first_line};
use crate::os::{affinity, membarrier::Membarrier};
use serde::Serialize;
use std::fs::{self, File, OpenOptions};

/// Whether the machine has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It does.
    Good,
    /// It does not.
    Lacking,
}

/// One thing looked at.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// A word.
    pub topic: &'static str,
    /// Whether it is there.
    pub state: State,
    /// What was seen.
    pub found: String,
    /// What lacks without it.
    pub needed_for: &'static str,
    /// How to get it.
    pub remedy: &'static str,
}

/// Looks at everything.
pub fn examine() -> Vec<Finding> {
    vec![
        build(),
        cpus(),
        pinning(),
        memory(),
        membarrier(),
        huge_pages(),
        tracefs(),
        perf(),
        rings(),
        qemu(),
        kvm(),
    ]
}

fn finding(
    topic: &'static str,
    good: bool,
    found: impl Into<String>,
    needed_for: &'static str,
    remedy: &'static str,
) -> Finding {
    let state = if good { State::Good } else { State::Lacking };
    Finding { topic, state, found: found.into(), needed_for, remedy }
}

fn build() -> Finding {
    let release = !cfg!(debug_assertions);
    let found = if release { "release" } else { "debug" };
    finding("build", release, found, "figures that mean something", "cargo run --release")
}

fn cpus() -> Finding {
    let cpus = HostInfo::of_this_machine().cpus;
    finding("cpus", cpus >= 2, format!("{cpus}"), "anything that scales", "a machine with two CPUs or more")
}

fn pinning() -> Finding {
    let pinned = affinity::allowed().and_then(|cpus| affinity::pin(cpus[0]).map(drop));
    let found = match &pinned {
        Ok(()) => "threads can be pinned to CPUs".to_string(),
        Err(error) => format!("sched_setaffinity: {error}"),
    };
    finding(
        "pinning",
        pinned.is_ok(),
        found,
        "steady figures",
        "allow sched_setaffinity in the sandbox's filter",
    )
}

fn memory() -> Finding {
    let bytes = HostInfo::of_this_machine().memory_bytes;
    let found = format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64);
    finding("memory", bytes >= 2 << 30, found, "cold figures", "a machine with 2 GiB or more")
}

fn membarrier() -> Finding {
    let registered = Membarrier::register();
    let found = match &registered {
        Ok(_) => "membarrier, private expedited".to_string(),
        Err(error) => format!("membarrier: {error}"),
    };
    let remedy = "a kernel with CONFIG_MEMBARRIER, and a sandbox that allows the call";
    finding("membarrier", registered.is_ok(), found, "read sections without a fence", remedy)
}

fn huge_pages() -> Finding {
    let mode = HostInfo::of_this_machine().huge;
    let good = mode == "madvise" || mode == "always";
    let remedy = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled";
    finding("huge pages", good, format!("THP {mode}"), "Linux as a yardstick for huge pages", remedy)
}

fn tracefs() -> Finding {
    const PATH: &str = "/sys/kernel/tracing/events/exceptions/page_fault_user/id";
    let opened = File::open(PATH);
    let found = match &opened {
        Ok(_) => "the page-fault tracepoints can be read".to_string(),
        Err(error) => format!("{PATH}: {error}"),
    };
    let remedy = "sudo mount -t tracefs tracefs /sys/kernel/tracing; run as root, or give the binary \
                  cap_dac_read_search (see perf)";
    finding("tracefs", opened.is_ok(), found, "recording programs without loss", remedy)
}

fn perf() -> Finding {
    const CAP_SYS_ADMIN: u64 = 1 << 21;
    const CAP_PERFMON: u64 = 1 << 38;
    let paranoid = first_line("/proc/sys/kernel/perf_event_paranoid");
    let level = paranoid.as_deref().and_then(|text| text.parse::<i32>().ok());
    let capable = effective_capabilities() & (CAP_SYS_ADMIN | CAP_PERFMON) != 0;
    let good = level.is_some() && (capable || level.is_some_and(|l| l < 0));
    let found = format!(
        "perf_event_paranoid {}, {} cap_perfmon",
        paranoid.as_deref().unwrap_or("missing"),
        if capable { "with" } else { "without" }
    );
    let remedy = "sudo setcap cap_perfmon,cap_dac_read_search,cap_ipc_lock+ep target/release/interleaf";
    finding("perf", good, found, "recording programs without loss", remedy)
}

fn effective_capabilities() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    line.and_then(|l| u64::from_str_radix(l.trim(), 16).ok()).unwrap_or(0)
}

fn rings() -> Finding {
    const CAP_IPC_LOCK: u64 = 1 << 14;
    const WANTED_KIB: u64 = 16 * 1024;
    let allowed = first_line("/proc/sys/kernel/perf_event_mlock_kb").and_then(|l| l.parse::<u64>().ok());
    let capable = effective_capabilities() & CAP_IPC_LOCK != 0;
    let good = capable || allowed.is_some_and(|kib| kib >= WANTED_KIB);
    let found = match (capable, allowed) {
        (true, _) => "rings of any size (cap_ipc_lock)".to_string(),
        (false, Some(kib)) => format!("rings of {kib} KiB per CPU"),
        (false, None) => "no perf rings".to_string(),
    };
    let remedy = "cap_ipc_lock (see perf), or sudo sysctl kernel.perf_event_mlock_kb=16388";
    finding("rings", good, found, "recording busy programs without loss", remedy)
}

fn qemu() -> Finding {
    let found = image::qemu();
    let text = found.as_ref().map_or_else(image::no_qemu, |p| p.display().to_string());
    finding("qemu", found.is_some(), text, "booting the kernel", image::QEMU_REMEDY)
}

fn kvm() -> Finding {
    const PATH: &str = "/dev/kvm";
    let opened = OpenOptions::new().read(true).write(true).open(PATH);
    let found = opened.map_err(|error| format!("{PATH}: {error}")).and_then(|_| qemu_with_kvm());
    let good = found.is_ok();
    let remedy = "a host whose /dev/kvm works, and the group kvm; tcg does without";
    finding("kvm", good, found.unwrap_or_else(|why| why), "booting the kernel with --accel kvm", remedy)
}

/// Has the emulator run a guest on KVM. That /dev/kvm can be opened does not mean that it works, as inside of
/// other virtual machines.
fn qemu_with_kvm() -> Result<String, String> {
    let qemu = image::qemu().ok_or_else(image::no_qemu)?;
    probe::kvm_runs(&qemu).map(|()| "QEMU runs a guest on it".to_string())
}

#[cfg(test)]
#[path = "tests/findings.rs"]
mod tests;
