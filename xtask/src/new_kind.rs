//! `cargo xtask new-kind`: a backing and a kind of marker that nothing lists come in by few files.
//!
//! ```text
//!   checks/new-kind/new-kind.patch ──► its files are those of checks/new-kind/files, at most three old ones
//!                                  ──► applied to a copy of the library in target/new-kind
//!                                  ──► the tests of the new kind are built there, and run
//! ```
//!
//! Where a change of the library makes the patch fail to apply, the patch is made anew: apply what still
//! fits, mend the rest, and write the difference to the file. Where it then needs another file, a rule of the
//! kinds has left its place.

use crate::runner::passed;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files of the tree that a new backing and a new kind of marker may change.
const MOST_CHANGED: usize = 3;
/// The tests of the patch.
const TESTS: &str = "space::fault::source::bounded";

/// A file of the patch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Changed {
    path: String,
    /// The patch adds it.
    is_own: bool,
}

/// Applies the patch to a copy of the library and runs its tests there.
pub fn check_and_print(root: &Path) -> Result<(), String> {
    let folder = root.join("checks/new-kind");
    let patch = folder.join("new-kind.patch");
    let changed = files_of(&read(&patch)?);
    refuse(&changed, &listed(&read(&folder.join("files"))?)?)?;
    let copy = copy(root)?;
    apply(&patch, &copy)?;
    let passed = run_tests(root, &copy)?;
    fs::remove_dir_all(&copy).map_err(|error| format!("{}: {error}", copy.display()))?;
    let old = changed.iter().filter(|file| !file.is_own).count();
    println!("a new backing and a new kind of marker change {old} files; {passed} tests of them pass");
    Ok(())
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The files that a patch changes or adds.
fn files_of(patch: &str) -> Vec<Changed> {
    let lines: Vec<_> = patch.lines().collect();
    // Of each file, whether lines of it are changed or it is removed, renamed or binary.
    let headers = lines.iter().enumerate().filter_map(|(at, line)| {
        let (_, new) = line.strip_prefix("diff --git a/")?.split_once(" b/")?;
        let is_own = lines.get(at + 1).is_some_and(|next| next.starts_with("new file mode"));
        Some(Changed { path: new.to_string(), is_own })
    });
    headers.collect()
}

/// The files of the list: a word, *own* or *changed*, and a path a line.
fn listed(text: &str) -> Result<Vec<Changed>, String> {
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let file = |line: &str| match line.split_once(' ') {
        Some((word @ ("own" | "changed"), path)) => {
            Ok(Changed { path: path.trim().to_string(), is_own: word == "own" })
        }
        _ => Err(format!("{line}: no file of the list")),
    };
    lines.map(file).collect()
}

/// Why the patch does not keep to the list, or the list to its size.
fn refuse(changed: &[Changed], listed: &[Changed]) -> Result<(), String> {
    let sorted = |files: &[Changed]| {
        let mut files = files.to_vec();
        files.sort();
        files
    };
    if sorted(changed) != sorted(listed) {
        return Err(format!("the patch has the files {changed:#?}, the list {listed:#?}"));
    }
    let old = changed.iter().filter(|file| !file.is_own).count();
    if old > MOST_CHANGED {
        return Err(format!("a new kind changes {old} files of the tree, more than {MOST_CHANGED}"));
    }
    Ok(())
}

/// Copies the library, in a workspace of its own. Returns where.
fn copy(root: &Path) -> Result<PathBuf, String> {
    let copy = root.join("target/new-kind");
    let failed = |error: std::io::Error| format!("{}: {error}", copy.display());
    if copy.exists() {
        fs::remove_dir_all(&copy).map_err(failed)?;
    }
    copy_folder(&root.join("vm"), &copy.join("vm")).map_err(failed)?;
    fs::write(copy.join("Cargo.toml"), alone(&read(&root.join("Cargo.toml"))?)).map_err(failed)?;
    fs::copy(root.join("Cargo.lock"), copy.join("Cargo.lock")).map_err(failed)?;
    Ok(copy)
}

fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_folder(&from, &to)?;
        } else {
            fs::copy(from, to)?;
        }
    }
    Ok(())
}

/// The workspace with the library as its only member.
fn alone(manifest: &str) -> String {
    let line = |line: &str| match line.split_once(" = ") {
        Some(("members", _)) => "members = [\"vm\"]\n".to_string(),
        Some(("default-members", _)) => String::new(),
        _ => format!("{line}\n"),
    };
    manifest.lines().map(line).collect()
}

/// Applies the patch as if no repository were around: git would take its paths for those of that one.
fn apply(patch: &Path, copy: &Path) -> Result<(), String> {
    let mut git = Command::new("git");
    git.args(["apply", "--whitespace=nowarn"]).arg(patch).current_dir(copy);
    git.env("GIT_CEILING_DIRECTORIES", copy.parent().unwrap_or(copy));
    let output = git.output().map_err(|error| format!("git: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("the patch does not apply:\n{}", String::from_utf8_lossy(&output.stderr)))
}

/// Builds and runs the tests of the new kind, as the library's others are, so that what it depends on is
/// built. Returns how many have passed.
fn run_tests(root: &Path, copy: &Path) -> Result<usize, String> {
    let mut test = crate::cargo();
    test.args(["test", "--quiet", "--package", "interleaf", "--features", "mutants", "--profile", "unit"]);
    test.args(["--offline", "--lib", TESTS]).current_dir(copy).env("CARGO_TARGET_DIR", root.join("target"));
    let output = test.output().map_err(|error| format!("cargo: {error}"))?;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    match passed(&out) {
        nr if output.status.success() && nr > 0 => Ok(nr),
        _ => Err(format!("the library with the new kind:\n{out}{err}")),
    }
}

#[cfg(test)]
#[path = "tests/new_kind.rs"]
mod tests;
