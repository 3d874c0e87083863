//! The checkout from which this program was built, and whose other packages are built when they are asked
//! for: the kernel, its programs, and what `interleaf check` runs.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The Cargo profile with which this program was built.
pub const PROFILE: &str = env!("INTERLEAF_PROFILE");

/// The profile whose figures are compared: the library and its callers are one unit of code generation each,
/// so that what is inlined does not depend on how they are cut.
pub const FIGURES: &str = "figures";

/// Builds the package in the folder `place` of the checkout with `profile`, and returns the folder in which
/// its files lie.
///
/// # Errors
/// One line: there is no such package, or it does not build.
pub fn build(package: &str, place: &str, profile: &str) -> Result<PathBuf, String> {
    let folder = root().join(place);
    if !folder.join("Cargo.toml").is_file() {
        return Err(format!("{}: no package {package} there to build", folder.display()));
    }
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--profile", profile, "--package", package]);
    cargo.arg("--target-dir").arg(target()).current_dir(root());
    match cargo.status() {
        Ok(status) if status.success() => Ok(folder_of(profile)),
        Ok(status) => Err(format!("{package} does not build: cargo ended with {status}")),
        Err(error) => Err(format!("{package} cannot be built: cargo: {error}")),
    }
}

/// Where the files of packages lie that were built with `profile`.
pub fn folder_of(profile: &str) -> PathBuf {
    target().join(if matches!(profile, "dev" | "test") { "debug" } else { profile })
}

fn root() -> &'static Path {
    let lab = Path::new(env!("CARGO_MANIFEST_DIR"));
    lab.parent().unwrap_or(lab)
}

fn target() -> PathBuf {
    root().join("target")
}

#[cfg(test)]
#[path = "tests/checkout.rs"]
mod tests;
