//! `cargo xtask sweep`: the small programs of `docs/results/sweep.md`, each run by Linux, by the kernel, and
//! recorded and replayed. Prints a table; files lie in `target/sweep`.
//!
//! A program says what it finds as lines that begin with PASS or FAIL, and LACKS where it needs a call that
//! the kernel does not have. It must pass on this machine's Linux; elsewhere a failure is a *hit*.

use crate::boots;
use crate::runner::note_lacking;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The programs of the first round.
const FIRST: &[&str] = &[
    "noreplace",
    "none-is-forbidden",
    "fixed-over-many",
    "refused-fixed-keeps",
    "advice-over-holes",
    "dontneed-without-rights",
    "fork-again",
    "map-beside-child",
    "protected-before-fork",
    "shared-after-fork",
    "brk-shrinks",
    "mincore-answers",
    "shared-split",
    "advice-joins-again",
    "code-across-pages",
    "kernel-writes",
    "remap-answers",
    "huge-parts",
    "handed-over",
    "vfork-shares",
];
/// Those of the second.
const SECOND: &[&str] = &[
    "protect-over-hole",
    "brk-answers",
    "answers-in-order",
    "fork-advice",
    "write-only",
    "fixed-gives-back",
    "remap-grows",
    "shared-grows",
    "huge-keeps-few",
    "unmap-sparse",
];
/// Where their sources lie.
const FOLDER: &str = "lab/tests/programs/sweep";
/// Seconds that one run may take.
const TIMEOUT: &str = "120";
const USAGE: &str = "sweep takes `first`, `second`, names of programs, or nothing for all; --interleaf FILE";

/// Runs the programs that `arguments` name; fails if there is a hit, or one does not pass on Linux.
///
/// # Errors
/// How many there are; or that something cannot be built.
pub fn run(root: &Path, arguments: &[&str]) -> Result<(), String> {
    let (names, interleaf) = read(arguments)?;
    let interleaf = interleaf.map_or_else(|| boots::interleaf(root), Ok)?;
    let folder = root.join("target/sweep");
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    println!("| program | Linux | the kernel | recorded and replayed |");
    println!("|---|---|---|---|");
    let mut bad = 0;
    for name in &names {
        let program = compiled(root, &folder, name)?;
        let found = [
            verdict(&printed(&mut limited(&program))?),
            in_kernel(&interleaf, name, &program)?,
            replayed(&interleaf, &folder, name, &program)?,
        ];
        bad += usize::from(found.iter().any(|(good, _)| !good));
        println!("| `{name}` | {} |", found.map(|(_, text)| text).join(" | "));
    }
    println!("{} programs, {bad} with a failure", names.len());
    if bad == 0 { Ok(()) } else { Err(format!("{bad} programs fail: what they print is in target/sweep")) }
}

fn read<'a>(arguments: &[&'a str]) -> Result<(Vec<&'a str>, Option<PathBuf>), String> {
    let (mut names, mut interleaf) = (Vec::new(), None);
    let mut words = arguments.iter();
    while let Some(&word) = words.next() {
        match word {
            "first" => names.extend(FIRST),
            "second" => names.extend(SECOND),
            "--interleaf" => interleaf = Some(PathBuf::from(words.next().ok_or(USAGE)?)),
            name if FIRST.contains(&name) || SECOND.contains(&name) => names.push(name),
            _ => return Err(format!("{word}: {USAGE}")),
        }
    }
    if names.is_empty() {
        names = [FIRST, SECOND].concat();
    }
    Ok((names, interleaf))
}

/// Compiles a program, static, as the kernel wants it.
fn compiled(root: &Path, folder: &Path, name: &str) -> Result<PathBuf, String> {
    let program = folder.join(name);
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-static", "-pthread", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
    boots::succeed(cc.arg(root.join(FOLDER).join(name).with_extension("c")))?;
    Ok(program)
}

/// The program, ended when its time is up.
fn limited(program: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.arg(TIMEOUT).arg(program);
    command
}

fn printed(command: &mut Command) -> Result<Output, String> {
    command.output().map_err(|e| format!("{command:?}: {e}"))
}

/// Boots the program, and keeps its console.
fn in_kernel(interleaf: &Path, name: &str, program: &Path) -> Result<(bool, String), String> {
    if !boots::has_qemu() {
        note_lacking("the sweep in the kernel: no qemu-system-x86_64")?;
        return Ok((true, "not run".to_string()));
    }
    let mut command = Command::new(interleaf);
    command.args(["boot", "--cpus", "2", "--timeout", TIMEOUT]);
    if name.starts_with("huge") {
        command.args(["--huge", "always"]);
    }
    let output = printed(command.arg("--").arg(program))?;
    keep(program, "boot", &output)?;
    Ok(verdict(&output))
}

/// Records the program, and replays it.
fn replayed(interleaf: &Path, folder: &Path, name: &str, program: &Path) -> Result<(bool, String), String> {
    let trace = folder.join(name).with_extension("trace");
    let mut record = Command::new("timeout");
    record.arg(TIMEOUT).arg(interleaf).args(["record", "-o"]).arg(&trace).arg("--").arg(program);
    let output = printed(&mut record)?;
    keep(program, "record", &output)?;
    if !output.status.success() {
        return Ok((false, format!("not recorded: {}", last_line(&output.stderr))));
    }
    let mut replay = Command::new("timeout");
    let output = printed(replay.arg(TIMEOUT).arg(interleaf).arg("replay").arg(&trace))?;
    keep(program, "replay", &output)?;
    Ok(match output.status.code() {
        Some(0) => (true, "the same".to_string()),
        Some(124) => (false, format!("no end in {TIMEOUT} s")),
        _ => (false, last_line(&output.stderr)),
    })
}

/// Keeps what a command printed beside its program.
fn keep(program: &Path, of: &str, output: &Output) -> Result<(), String> {
    let path = program.with_extension(of);
    fs::write(&path, [&output.stdout[..], &output.stderr[..]].concat())
        .map_err(|e| format!("{}: {e}", path.display()))
}

/// What a program's lines and its end come to, and whether that is good.
fn verdict(output: &Output) -> (bool, String) {
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = || text.lines().map(str::trim_end);
    let passed = lines().filter(|line| line.starts_with("PASS")).count();
    let failed: Vec<&str> = lines().filter_map(|line| line.strip_prefix("FAIL ")).collect();
    let lacks = lines().find_map(|line| line.strip_prefix("LACKS "));
    match (failed.first(), output.status.code(), lacks) {
        (Some(first), ..) => (false, format!("{} of {} fail: {first}", failed.len(), passed + failed.len())),
        (None, Some(0), Some(call)) => (true, format!("lacks {call}")),
        (None, Some(0), None) if passed > 0 => (true, format!("{passed} pass")),
        (None, code, _) => {
            let end = code.map_or("a signal".to_string(), |code| format!("code {code}"));
            (false, format!("ends with {end} after {passed}: {}", last_line(&output.stderr)))
        }
    }
}

fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("").trim().to_string()
}

#[cfg(test)]
#[path = "tests/sweep.rs"]
mod tests;
