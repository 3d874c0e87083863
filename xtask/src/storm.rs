//! The same storm over many boots, each of which must succeed.
//!
//! Each boot has another seed, and boots take turns between the two paths of a fault. The program `storm` is
//! booted, with more threads than CPUs in one space, or `fork_storm`, in which they fork besides, or one of
//! the kernel's self-tests. One line for each boot goes to `target/storm/log.txt`, and the output of a
//! failed boot to a file beside it; a line of a table is printed for each number of CPUs.

use crate::boots;
use crate::runner::output_of;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The options.
struct Options {
    boots: usize,
    cpus: Vec<usize>,
    first: usize,
    program: String,
    rounds: usize,
    selftest: Option<String>,
}

const USAGE: &str =
    "storm takes --boots N, --cpus N,M,..., --first SEED, --program NAME, --rounds N, --selftest NAME";
/// Rounds of each thread of the program.
const ROUNDS: usize = 60;
/// The program, unless another is named.
const PROGRAM: &str = "storm";

/// Runs the storms that `arguments` ask for; fails if one of them did.
pub fn run(root: &Path, arguments: &[&str]) -> Result<(), String> {
    let options = Options::read(arguments).ok_or(USAGE)?;
    let storm = Storm::new(root, &options)?;
    println!("| CPUs | boots | clean | fastest, s | median, s | slowest, s |");
    let mut log = String::new();
    let mut failed = 0;
    for &cpus in &options.cpus {
        let mut took = Vec::new();
        let mut broken = 0;
        for seed in options.first..options.first + options.boots {
            let boot = storm.boot(cpus, seed)?;
            took.push(boot.seconds);
            broken += usize::from(!boot.good);
            // Writing to a string does not fail.
            let _ = writeln!(log, "{}", boot.line);
            fs::write(storm.folder.join("log.txt"), &log).map_err(|e| e.to_string())?;
            if !boot.good {
                println!("{}", boot.line);
            }
        }
        println!("{}", summary(cpus, broken, &mut took));
        failed += broken;
    }
    if failed == 0 { Ok(()) } else { Err(format!("{failed} boots failed: see target/storm")) }
}

impl Options {
    fn read(arguments: &[&str]) -> Option<Options> {
        let (program, cpus) = (PROGRAM.to_string(), vec![1, 2, 4]);
        let mut options = Options { boots: 200, cpus, first: 1, program, rounds: ROUNDS, selftest: None };
        for pair in arguments.chunks(2) {
            match pair {
                ["--boots", number] => options.boots = number.parse().ok().filter(|n| *n > 0)?,
                ["--first", number] => options.first = number.parse().ok()?,
                ["--program", name] => options.program = name.to_string(),
                ["--rounds", number] => options.rounds = number.parse().ok()?,
                ["--selftest", name] => options.selftest = Some(name.to_string()),
                ["--cpus", list] => {
                    options.cpus = list.split(',').map(|n| n.parse().ok()).collect::<Option<_>>()?
                }
                _ => return None,
            }
        }
        Some(options)
    }
}

/// The built programs.
struct Storm {
    interleaf: PathBuf,
    kernel: String,
    program: String,
    rounds: usize,
    selftest: Option<String>,
    folder: PathBuf,
}

/// One boot that is over.
struct Boot {
    good: bool,
    seconds: f64,
    line: String,
}

impl Storm {
    fn new(root: &Path, options: &Options) -> Result<Storm, String> {
        let built = boots::kernel_files(root)?;
        let name = |file: &str| built.join(file).to_str().map(str::to_string).ok_or("a path that is no text");
        let folder = root.join("target/storm");
        // Removes the log of an earlier run.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let (kernel, program) = (name("interleaf-kernel")?, name(&options.program)?);
        let (rounds, selftest) = (options.rounds, options.selftest.clone());
        Ok(Storm { interleaf: boots::interleaf(root)?, kernel, program, rounds, selftest, folder })
    }

    fn boot(&self, cpus: usize, seed: usize) -> Result<Boot, String> {
        let path = if seed.is_multiple_of(2) { "locked" } else { "speculative" };
        let cpus_word = cpus.to_string();
        let options = ["--kernel", &self.kernel, "--cpus", &cpus_word, "--path", path];
        let program = format!("{} {} {} {seed}", self.program, 2 * cpus + 1, self.rounds);
        let mut command = match &self.selftest {
            Some(name) => boots::boot(&self.interleaf, &[&options[..], &["--selftest", name]].concat(), None),
            None => boots::boot(&self.interleaf, &options, Some(&program)),
        };
        let start = Instant::now();
        let (good, output) = output_of(&mut command)?;
        let seconds = start.elapsed().as_secs_f64();
        let verdict = if good { "clean" } else { "FAILED" };
        let line = format!("{cpus} CPUs, seed {seed}, {path}: {verdict}, {seconds:.1} s");
        if !good {
            let file = self.folder.join(format!("{cpus}-{seed}.txt"));
            fs::write(&file, output).map_err(|e| format!("{}: {e}", file.display()))?;
        }
        Ok(Boot { good, seconds, line })
    }
}

fn summary(cpus: usize, broken: usize, took: &mut [f64]) -> String {
    took.sort_by(f64::total_cmp);
    let (least, most, middle) = (took[0], took[took.len() - 1], took[took.len() / 2]);
    let clean = took.len() - broken;
    format!("| {cpus} | {} | {clean} | {least:.1} | {middle:.1} | {most:.1} |", took.len())
}

#[cfg(test)]
#[path = "tests/storm.rs"]
mod tests;
