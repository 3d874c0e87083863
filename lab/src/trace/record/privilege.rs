//! What recording everything needs, and what the process has.

use std::fs;

/// A capability of Linux: its bit and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Capability {
    bit: u32,
    name: &'static str,
    why: &'static str,
    or_else: u32,
}

const ADMIN: u32 = 21;
const DAC_OVERRIDE: u32 = 1;

/// What is needed: each, or the wider one that includes it.
const NEEDED: [Capability; 2] = [
    Capability { bit: 38, name: "CAP_PERFMON", why: "to follow tracepoints", or_else: ADMIN },
    Capability { bit: 2, name: "CAP_DAC_READ_SEARCH", why: "to read tracefs", or_else: DAC_OVERRIDE },
];

/// The capabilities that are missing, each with its reason; empty if nothing is.
pub fn missing() -> Vec<String> {
    missing_from(effective().unwrap_or(0))
}

fn missing_from(set: u64) -> Vec<String> {
    let has = |bit: u32| set >> bit & 1 == 1;
    let lacks = NEEDED.iter().filter(|c| !has(c.bit) && !has(c.or_else));
    lacks.map(|c| format!("{} ({})", c.name, c.why)).collect()
}

/// The command that gives a program what it needs to record for any user.
pub fn setcap_line() -> String {
    let program = std::env::current_exe().map(|p| p.display().to_string());
    let program = program.unwrap_or_else(|_| "interleaf".into());
    format!("sudo setcap cap_perfmon,cap_dac_read_search,cap_ipc_lock+ep {program}")
}

fn effective() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

#[cfg(test)]
#[path = "tests/privilege.rs"]
mod tests;
