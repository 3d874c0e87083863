//! Booting the kernel, and running its programs for ring 3: in the machine, and on the host as their oracle.
//!
//! `boots` is a part of `test`: it boots the kernel's own self-tests and every program, with one CPU and with more, on
//! both paths of a fault. `storm` does the same program many times over and tells what became of it.

use crate::runner::{note_lacking, output_of};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs that measure, or that are run by hand: no self-tests.
const NO_TESTS: &[&str] = &["cost"];
/// CPUs of the boots of `boots`, and the path of a fault.
const MACHINES: &[(&str, &str)] = &[("1", "locked"), ("2", "speculative"), ("4", "locked")];
/// Seconds for one boot: a hundred times what it takes alone.
const TIMEOUT: &str = "120";

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
    if !has_qemu() {
        return note_lacking("booting the kernel: no qemu-system-x86_64 (apt-get install qemu-system-x86)");
    }
    let interleaf = interleaf(root)?;
    let programs = programs(root)?;
    let tests = programs.iter().filter(|name| !NO_TESTS.contains(&name.as_str()));
    let tests: Vec<Option<&str>> =
        std::iter::once(None).chain(tests.map(|name| Some(name.as_str()))).collect();
    for &(cpus, path) in MACHINES {
        for test in &tests {
            let output = output_of(&mut boot(&interleaf, &["--cpus", cpus, "--path", path], *test))?;
            let name = test.unwrap_or("self-tests");
            if !output.0 {
                return Err(format!("{name}, {cpus} CPUs, {path}:\n{}", output.1));
            }
        }
    }
    println!("{} boots ended well", MACHINES.len() * tests.len());
    Ok(())
}

/// Whether there is an emulator.
fn has_qemu() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join("qemu-system-x86_64").is_file())
}

/// The folder with the kernel and the programs, built.
pub fn kernel_files(root: &Path) -> Result<PathBuf, String> {
    build(root, &["interleaf-kernel", "interleaf-programs"])
}

fn build(root: &Path, packages: &[&str]) -> Result<PathBuf, String> {
    let mut build = Command::new("cargo");
    build.args(["build", "--quiet", "--profile", "kernel"]);
    build.args(packages.iter().flat_map(|package| ["--package", package]));
    succeed(build.current_dir(root))?;
    Ok(root.join("target/kernel"))
}

/// The command, built.
pub fn interleaf(root: &Path) -> Result<PathBuf, String> {
    let mut build = Command::new("cargo");
    succeed(build.args(["build", "--quiet", "--bin", "interleaf"]).current_dir(root))?;
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

fn succeed(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|e| format!("{command:?}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}")) }
}
