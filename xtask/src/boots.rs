//! Booting the kernel, and running its programs for ring 3: in the machine, and on the host as their oracle.
//!
//! `boots` is a part of `test`: it boots the kernel's own self-tests and every program, with one CPU and with
//! more, on both paths of a fault, with and without the library's debug assertions.

use crate::runner::{note_lacking, output_of};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs that measure: no self-tests.
const NO_TESTS: &[&str] = &["cost"];
/// Time limit of one boot, in seconds: many times its duration alone.
const TIMEOUT: &str = "300";

/// Runs every program on the host; each must end with code 0.
pub fn on_host(root: &Path) -> Result<(), String> {
    let built = build(root, &["interleaf-programs"])?;
    let programs = programs(root)?;
    for name in &programs {
        let words = if NO_TESTS.contains(&name.as_str()) { &["1"][..] } else { &[] };
        let output = output_of(Command::new(built.join(name)).args(words))?;
        if !output.0 {
            return Err(format!("{name} does not hold on the host:\n{}", output.1));
        }
    }
    println!("{} programs hold on the host: {}", programs.len(), programs.join(", "));
    Ok(())
}

/// Boots the self-tests and every program.
pub fn all(root: &Path) -> Result<(), String> {
    self_tests(root)?;
    in_ring_3(root)
}

/// Boots the kernel's own tests, with the library's debug assertions; and on the smallest machine and the
/// largest.
pub fn self_tests(root: &Path) -> Result<(), String> {
    let options = |cpus, path| ["--checked", "--cpus", cpus, "--path", path];
    let own = [("2", "speculative"), ("4", "locked"), ("2", "vma-lock")];
    boots(root, &own.map(|(cpus, path)| (options(cpus, path), None)))?;
    // Base pages alone are what the boots above had; the names of these tests begin alike.
    let huge = |cpus, path, huge, test| ["--cpus", cpus, "--path", path, "--huge", huge, "--selftest", test];
    let tests = ["huge", "huge-fork", "huge-race", "huge-storm", "storm"];
    for (cpus, path, policy) in [("1", "locked", "always"), ("4", "speculative", "madvise")] {
        boots(root, &tests.map(|test| (huge(cpus, path, policy, test), None)))?;
    }
    let checked = |cpus, path, test| {
        ["--checked", "--cpus", cpus, "--path", path, "--huge", "always", "--selftest", test]
    };
    boots(root, &["huge", "huge-race", "huge-storm"].map(|test| (checked("2", "speculative", test), None)))?;
    let machine =
        |cpus, memory, start| ["--selftest", "flushes", "--cpus", cpus, "--memory", memory, "--start", start];
    let machines = [("1", "64M", "deferred"), ("2", "64M", "whole"), ("32", "64G", "deferred")];
    boots(root, &machines.map(|(cpus, memory, start)| (machine(cpus, memory, start), None)))
}

/// Boots every program, with the library's debug assertions and in the profile of the measurements.
pub fn in_ring_3(root: &Path) -> Result<(), String> {
    let programs = programs(root)?;
    let tests = programs.iter().filter(|name| !NO_TESTS.contains(&name.as_str()));
    let machines = [["1", "locked"], ["2", "speculative"], ["4", "locked"]];
    let on_each = |name| machines.map(|[cpus, path]| (["--cpus", cpus, "--path", path], Some(name)));
    let mut tests = tests.flat_map(|name| on_each(name.as_str())).collect::<Vec<_>>();
    tests.push((["--cpus", "8", "--path", "speculative"], Some("fork_storm")));
    boots(root, &tests)?;
    with_huge_pages(root)?;
    with_hugetlb(root)?;
    with_khugepaged(root)?;
    let checked = |name| (["--checked", "--cpus", "2"], Some(name));
    boots(root, &["storm", "unmap_readers", "forks", "fork_storm"].map(checked))?;
    ends(root)
}

/// Boots the program that asks for huge pages under each policy, whose name it is told: then all of its
/// numbers must be right. And what makes most of memory, with huge pages always.
fn with_huge_pages(root: &Path) -> Result<(), String> {
    let policies = [("never", "huge never"), ("madvise", "huge madvise"), ("always", "huge always")];
    for (cpus, path) in [("1", "speculative"), ("2", "locked")] {
        let with = |(policy, words)| (["--cpus", cpus, "--path", path, "--huge", policy], Some(words));
        boots(root, &policies.map(with))?;
    }
    let zeros =
        [("virtual", "huge always virtual"), ("small", "huge always small"), ("none", "huge always none")];
    let with = |(zero, words)| (["--cpus", "1", "--huge", "always", "--zero-page", zero], Some(words));
    boots(root, &zeros.map(with))?;
    let always = |name| (["--cpus", "2", "--huge", "always"], Some(name));
    boots(root, &["faults", "dontneed", "protect", "forks", "fork_storm"].map(always))
}

/// Boots the program whose base pages become huge ones while it waits. Advised memory alone has huge pages,
/// so that no other is counted.
fn with_khugepaged(root: &Path) -> Result<(), String> {
    let with = |cpus, path| {
        let words = ["--cpus", cpus, "--path", path, "--huge", "madvise", "--scan-sleep-millisecs", "20"];
        (words, Some("khugepaged collapsed"))
    };
    boots(root, &[with("1", "speculative"), with("4", "locked")])?;
    let words = ["--checked", "--cpus", "2", "--huge", "madvise", "--scan-sleep-millisecs", "20"];
    boots(root, &[(words, Some("khugepaged collapsed"))])
}

/// Boots the program that maps the hugetlb pool, on machines that have one and on one that has none.
fn with_hugetlb(root: &Path) -> Result<(), String> {
    let with = |cpus, path, pages| (["--cpus", cpus, "--path", path, "--huge-pool", pages], Some("pool 8"));
    boots(root, &[with("1", "speculative", "8"), with("2", "locked", "8"), with("4", "speculative", "8")])?;
    boots(root, &[(["--checked", "--cpus", "2", "--huge-pool", "8"], Some("pool 8"))])
}

/// Boots the program `end`: its code is the command's, its words reach it as they are, it alone prints on
/// stdout, and a call that is missing is named once. And `forks`, whose first process ends before its
/// descendants: they end too, and every frame comes back, or the code is another.
fn ends(root: &Path) -> Result<(), String> {
    if !has_qemu() {
        return Ok(());
    }
    let interleaf = interleaf(root)?;
    let missing = "the program calls getuid (number 102), which this kernel does not have: ENOSYS";
    // What the program prints, all of it, and a part of what the kernel does.
    let cases: [(&str, &[&str], i32, &str, &str); 9] = [
        ("2", &["end", "128"], 128, "", "ended with 128"),
        (
            "2",
            &["end", "200", "two words", "", "100%", "ä"],
            200,
            "<two words>\n<>\n<100%>\n<ä>\n",
            "ended with 200",
        ),
        ("2", &["end", "255"], 255, "", "ended with 255"),
        ("2", &["end", "7", "a\r\u{1}b"], 7, "<a\r\u{1}b>\n", "ended with 7"),
        ("2", &["end", "fault"], 139, "", "ended with 139"),
        ("2", &["end", "missing"], 0, "", missing),
        ("1", &["forks", "abandon"], 77, "", "ended with 77"),
        ("2", &["forks", "abandon"], 77, "", "ended with 77"),
        ("4", &["forks", "abandon"], 77, "", "ended with 77"),
    ];
    for (cpus, words, code, printed, told) in cases {
        let mut command = boot(&interleaf, &["--cpus", cpus], None);
        let output = command.arg("--").args(words).output().map_err(|e| format!("{command:?}: {e}"))?;
        let [stdout, stderr] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        if output.status.code() != Some(code) || stdout != printed || stderr.matches(told).count() != 1 {
            let status = output.status;
            return Err(format!(
                "{words:?} on {cpus} CPUs ends with {status}, and prints:\n{stdout}{stderr}"
            ));
        }
    }
    println!("ends: codes, words, what is missing and what is left come back in {} cases", cases.len());
    Ok(())
}

/// Boots with each of these options, the self-tests or a program; each must end well.
fn boots<const N: usize>(root: &Path, tests: &[([&str; N], Option<&str>)]) -> Result<(), String> {
    if !has_qemu() {
        return note_lacking("booting the kernel: no qemu-system-x86_64 (apt-get install qemu-system-x86)");
    }
    let interleaf = interleaf(root)?;
    for (options, program) in tests {
        let (good, output) = output_of(&mut boot(&interleaf, options, *program))?;
        let name = program.unwrap_or("self-tests");
        if !good {
            return Err(format!("{name}, {}:\n{output}", options.join(" ")));
        }
        println!("{name}, {}: {}", options.join(" "), output.trim_end().lines().last().unwrap_or_default());
    }
    Ok(())
}

/// Whether there is an emulator.
pub fn has_qemu() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join("qemu-system-x86_64").is_file())
}

/// The folder with the kernel and the programs, built.
pub fn kernel_files(root: &Path) -> Result<PathBuf, String> {
    build(root, &["interleaf-kernel", "interleaf-programs"])
}

fn build(root: &Path, packages: &[&str]) -> Result<PathBuf, String> {
    let mut build = crate::cargo();
    build.args(["build", "--quiet", "--profile", "kernel"]);
    build.args(packages.iter().flat_map(|package| ["--package", package]));
    succeed(build.current_dir(root))?;
    Ok(root.join("target/kernel"))
}

/// The command, built.
pub fn interleaf(root: &Path) -> Result<PathBuf, String> {
    let mut build = crate::cargo();
    build.args(["build", "--quiet", "--profile", "test", "--bin", "interleaf"]);
    succeed(build.current_dir(root))?;
    Ok(root.join("target/debug/interleaf"))
}

/// A boot with these options, of a program or of the self-tests.
pub fn boot(interleaf: &Path, options: &[&str], program: Option<&str>) -> Command {
    let mut command = Command::new(interleaf);
    command.args(["boot", "--timeout", TIMEOUT]).args(options);
    if let Some(program) = program {
        command.arg("--").args(program.split(' '));
    }
    command
}

/// The names of the programs, from their sources.
fn programs(root: &Path) -> Result<Vec<String>, String> {
    let folder = root.join("kernel/programs/src/bin");
    let entries = fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let stem = |path: PathBuf| Some(path.file_stem()?.to_str()?.to_string());
    let mut names: Vec<String> = entries.flatten().filter_map(|entry| stem(entry.path())).collect();
    names.sort();
    if names.is_empty() { Err(format!("{} is empty", folder.display())) } else { Ok(names) }
}

/// Runs a command, which must succeed.
pub fn succeed(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|e| format!("{command:?}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}")) }
}
