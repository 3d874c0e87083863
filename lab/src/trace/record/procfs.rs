//! Facts about a stopped task from `/proc`.

use crate::trace::codec::fit_name;
use crate::trace::image::{Image, Layout, parse_smaps};
use std::fs;
use std::io;

/// The address space of `tid`, which must be stopped, as must all that share it.
pub fn image(tid: u32) -> io::Result<Image> {
    let program = fs::read_link(format!("/proc/{tid}/exe")).map(|p| p.display().to_string());
    let smaps = fs::read(format!("/proc/{tid}/smaps"))?;
    let mut mappings = parse_smaps(&String::from_utf8_lossy(&smaps)).map_err(io::Error::other)?;
    // The kernel's own page for old system calls is in every map and at no address of the program.
    mappings.retain(|m| m.name != "[vsyscall]");
    let layout = layout(&stat(tid)?);
    Ok(Image { program: program.unwrap_or_default(), called: called(tid), layout, mappings })
}

/// The first argument of a program; the others are not looked at. Empty where it cannot be read.
fn called(tid: u32) -> String {
    let line = fs::read(format!("/proc/{tid}/cmdline")).unwrap_or_default();
    let first = line.split(|&byte| byte == 0).next().unwrap_or_default();
    fit_name(&String::from_utf8_lossy(first)).to_string()
}

fn layout(stat: &[u64]) -> Layout {
    let field = |number: usize| stat.get(number).copied().unwrap_or(0);
    Layout {
        start_brk: field(47),
        start_stack: field(28),
        arg_start: field(48),
        arg_end: field(49),
        env_start: field(50),
        env_end: field(51),
    }
}

/// Minor and major faults that the kernel has counted for the process `pid`, added.
pub fn counted_faults(pid: u32) -> io::Result<u64> {
    let stat = stat(pid)?;
    let field = |number: usize| stat.get(number).copied().unwrap_or(0);
    Ok(field(10) + field(12))
}

/// The fields of `/proc/TID/stat` by the numbers that proc(5) gives them; those that are no number are 0.
fn stat(tid: u32) -> io::Result<Vec<u64>> {
    let text = fs::read_to_string(format!("/proc/{tid}/stat"))?;
    Ok(parse_stat(&text))
}

/// The fields of a line of `stat`.
pub fn parse_stat(text: &str) -> Vec<u64> {
    let after_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let numbers = after_name.split_whitespace().map(|word| word.parse().unwrap_or(0));
    [0; 3].into_iter().chain(numbers).collect()
}

/// The process of a task, and the process that made it.
pub fn family(tid: u32) -> io::Result<(u32, u32)> {
    let status = fs::read_to_string(format!("/proc/{tid}/status"))?;
    let field = |key: &str| {
        let value = status.lines().find_map(|l| l.strip_prefix(key)).map(str::trim);
        value
            .and_then(|v| v.parse().ok())
            .ok_or_else(|| io::Error::other(format!("no {key} in /proc/{tid}/status")))
    };
    Ok((field("Tgid:")?, field("PPid:")?))
}

#[cfg(test)]
#[path = "tests/procfs.rs"]
mod tests;
