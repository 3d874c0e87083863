//! `cargo xtask valgrind`: the library's unit tests under valgrind's memcheck, which sees every load and
//! store of the tests and of the machine that they run on, and every use of a value that nothing has written.
//!
//! Tests run one after the other: valgrind runs one thread at a time in any case. It is not told to look for
//! leaks: tests of panics leave things behind on purpose, and frames are counted by the library's own check.

use crate::mutate::executable;
use crate::runner::passed;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The status with which valgrind ends where it has found an error.
const FOUND: i32 = 99;

/// Runs the tests whose names contain one of `filters`; all where there are none.
pub fn run(root: &Path, filters: &[&str]) -> Result<(), String> {
    let version = Command::new("valgrind").arg("--version").output();
    let version = version.map_err(|e| format!("valgrind: {e} (apt-get install valgrind)"))?;
    println!("{}", String::from_utf8_lossy(&version.stdout).trim());
    let program = build(root)?;
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=memcheck", "--leak-check=no", "--quiet"]);
    valgrind.arg(format!("--error-exitcode={FOUND}")).arg(program).args(["--test-threads", "1"]);
    valgrind.args(filters).current_dir(root.join("vm")).env("RUST_BACKTRACE", "0");
    let output = valgrind.output().map_err(|e| format!("{valgrind:?}: {e}"))?;
    let text = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat();
    println!("{text}");
    match (output.status.code(), passed(&text)) {
        (Some(FOUND), _) => Err("valgrind has found an error".to_string()),
        (Some(0), 0) => Err(format!("no test has a name like {filters:?}")),
        (Some(0), tests) => {
            println!("{tests} tests passed under valgrind, without an error");
            Ok(())
        }
        (status, _) => Err(format!("the tests end with status {status:?} under valgrind")),
    }
}

/// The program of the library's unit tests, built.
fn build(root: &Path) -> Result<PathBuf, String> {
    let mut cargo = crate::cargo();
    cargo.args([
        "test",
        "--no-run",
        "--color",
        "never",
        "--package",
        "interleaf",
        "--lib",
        "--profile",
        "unit",
    ]);
    let output = cargo.current_dir(root).output().map_err(|e| format!("{cargo:?}: {e}"))?;
    let printed = String::from_utf8_lossy(&output.stderr);
    let program = executable(&printed).filter(|_| output.status.success());
    program.map(|program| root.join(program)).ok_or(format!("{cargo:?} failed:\n{printed}"))
}
