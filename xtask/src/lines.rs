//! Which lines two faults fight for, as the emulator sees it, beside what the library's recorder sees.
//!
//! The program `pair` does on two CPUs what the recorder's first pair does; the plugin counts, for each line,
//! in how many faults of each CPU it was written or read. A line that one CPU writes while the other touches
//! it is fought for. The recorder's result is in `lab/check/tests/counted/conflicts.txt`: every fault under
//! the space's lock fights for that lock and for nothing else, and a speculated fault for nothing; some
//! faults also meet in frames' records and in the zone.

use crate::boots;
use crate::runner::{note_lacking, output_of};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Faults of each CPU.
const FAULTS: u64 = 1_000;
/// Part of all faults from which a line counts as one of every fault: some take a longer path.
const EVERY: f64 = 0.9;

/// One line that the kernel touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    /// Its address in the kernel.
    at: u64,
    /// Number of each CPU's faults in which it was written.
    written: [u64; 2],
    /// Number of those in which it was read and not written.
    only_read: [u64; 2],
}

/// Boots the pair on both paths and compares.
pub fn run(root: &Path) -> Result<(), String> {
    if !boots::has_qemu() {
        return note_lacking("watching faults in the emulator: no qemu-system-x86_64");
    }
    boots::succeed(crate::cargo().args(["build", "--quiet", "-p", "interleaf-plugin"]).current_dir(root))?;
    let symbols = symbols(root);
    for (path, expected) in [("speculative", 0), ("locked", 1)] {
        let (windows, lines) = watched(root, path)?;
        let fought: Vec<&Line> = lines.iter().filter(|line| line.is_fought_for()).collect();
        let always = fought.iter().filter(|line| line.is_always(windows)).count();
        println!("{path}: {} and {} faults", windows[0], windows[1]);
        println!("  {always} lines are fought for by every fault, {} now and then", fought.len() - always);
        for line in fought.iter().filter(|line| line.is_always(windows) || line.is_of_image()) {
            println!("    {line} {}", name_of(line.at, &symbols));
        }
        for (cpu, all) in windows.iter().enumerate() {
            let written = lines.iter().filter(|line| line.written[cpu] as f64 >= EVERY * *all as f64).count();
            println!("  every fault of CPU {cpu} writes {written} lines that any fault writes");
        }
        if (fought.len() - always) as u64 > FAULTS / 32 {
            return Err(format!("{path}: more lines than those of refills are fought for"));
        }
        if always != expected {
            return Err(format!("{path}: the recorder sees {expected} lines that every fault fights for"));
        }
    }
    Ok(())
}

/// Boots the pair with the plugin; the faults of each CPU, and the lines.
fn watched(root: &Path, path: &str) -> Result<([u64; 2], Vec<Line>), String> {
    let file = root.join(format!("target/lines-{path}.txt"));
    let plugin =
        format!("{},table={}", root.join("target/debug/libinterleaf_plugin.so").display(), file.display());
    let options = ["--cpus", "2", "--no-timer", "--path", path, "--plugin", &plugin];
    let program = format!("pair {FAULTS}");
    let (good, output) = output_of(&mut boots::boot(&boots::interleaf(root)?, &options, Some(&program)))?;
    if !good {
        return Err(format!("{path}:\n{output}"));
    }
    let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    read(&text).ok_or(format!("{}: not what the plugin writes", file.display()))
}

/// Reads the plugin's table.
fn read(text: &str) -> Option<([u64; 2], Vec<Line>)> {
    let mut rows = text.lines();
    let numbers = |row: &str| row.split(' ').skip(1).map(number).collect::<Option<Vec<u64>>>();
    let windows = numbers(rows.next().filter(|row| row.starts_with("windows "))?)?;
    let line = |row: &str| match numbers(row)?[..] {
        [_, at, w0, r0, w1, r1] => Some(Line { at, written: [w0, w1], only_read: [r0, r1] }),
        _ => None,
    };
    Some((windows.try_into().ok()?, rows.map(line).collect::<Option<_>>()?))
}

fn number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

impl Line {
    fn touched(&self, cpu: usize) -> u64 {
        self.written[cpu] + self.only_read[cpu]
    }

    /// Whether one CPU writes it and the other touches it.
    fn is_fought_for(&self) -> bool {
        (self.written[0] > 0 && self.touched(1) > 0) || (self.written[1] > 0 && self.touched(0) > 0)
    }

    /// Whether that is so in (nearly) every fault: one CPU writes it in every fault, and the other touches it
    /// in every one.
    fn is_always(&self, windows: [u64; 2]) -> bool {
        let often = |count: u64, cpu: usize| count as f64 >= EVERY * windows[cpu] as f64;
        let one_way = |a: usize, b: usize| often(self.written[a], a) && often(self.touched(b), b);
        one_way(0, 1) || one_way(1, 0)
    }

    /// Whether it lies in the kernel's image, where lines have names.
    fn is_of_image(&self) -> bool {
        self.at >= 0xffff_ffff_8000_0000
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ([w0, w1], [r0, r1]) = (self.written, self.only_read);
        write!(f, "{:#x}: written in {w0} and {w1} faults, only read in {r0} and {r1}", self.at)
    }
}

/// The names of the kernel's image by address, rising; none where `nm` is missing.
fn symbols(root: &Path) -> Vec<(u64, String)> {
    let mut nm = Command::new("nm");
    nm.args(["--demangle", "--numeric-sort"]).arg(root.join("target/kernel/interleaf-kernel"));
    let Ok((true, text)) = output_of(&mut nm) else { return Vec::new() };
    let symbol = |line: &str| {
        let (address, rest) = line.split_once(' ')?;
        Some((u64::from_str_radix(address, 16).ok()?, rest.get(2..)?.to_string()))
    };
    text.lines().filter_map(symbol).collect()
}

/// The names that lie in the line at `at`, or the one before it.
fn name_of(at: u64, symbols: &[(u64, String)]) -> String {
    let end = symbols.partition_point(|(address, _)| *address < at + 64);
    let start = symbols.partition_point(|(address, _)| *address <= at).saturating_sub(1);
    let names: Vec<_> = symbols[start.min(end)..end].iter().map(|(_, name)| name.as_str()).collect();
    names.join(", ")
}

#[cfg(test)]
#[path = "tests/lines.rs"]
mod tests;
