//! The marked blocks of README.md: real output of real runs.
//!
//! A block is a comment that names a command, then a fence; the text inside of the fence is replaced by the
//! command's output.
//!
//! ````text
//! <!-- output of: interleaf doctor -->
//! ```text
//! ...
//! ```
//! ````

use std::fs;
use std::path::Path;
use std::process::Command;

const MARK: &str = "<!-- output of: ";
const FENCE: &str = "```";

/// Runs every marked command and puts its output into README.md.
pub fn refresh(root: &Path) -> Result<(), String> {
    let path = root.join("README.md");
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let refreshed = replace_blocks(&text, |command| output(root, command))?;
    fs::write(&path, refreshed).map_err(|e| format!("{}: {e}", path.display()))
}

fn replace_blocks(text: &str, output: impl Fn(&str) -> Result<String, String>) -> Result<String, String> {
    let mut result = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        result += &format!("{line}\n");
        let Some(command) = line.strip_prefix(MARK).and_then(|rest| rest.strip_suffix(" -->")) else {
            continue;
        };
        let open =
            lines.next().filter(|l| l.starts_with(FENCE)).ok_or(format!("{command}: no fence follows"))?;
        lines.by_ref().find(|l| *l == FENCE).ok_or(format!("{command}: the fence is not closed"))?;
        result += &format!("{open}\n{}\n{FENCE}\n", output(command)?.trim_end());
    }
    Ok(result)
}

fn output(root: &Path, command: &str) -> Result<String, String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let ["interleaf", arguments @ ..] = &words[..] else {
        return Err(format!("`{command}` is not a command of interleaf"));
    };
    println!("running {command}");
    let output = Command::new("cargo")
        .args(["run", "--release", "--quiet", "--bin", "interleaf", "--"])
        .args(arguments)
        .current_dir(root)
        .output()
        .map_err(|e| format!("{command}: {e}"))?;
    if !output.status.success() {
        return Err(format!("{command}: {}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
#[path = "tests/readme.rs"]
mod tests;
