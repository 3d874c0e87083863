//! Tests that this machine cannot run say so here, instead of passing in silence.
//!
//! `cargo xtask test` names a file in `INTERLEAF_LACKING`, lists its lines at the end, and fails if there is
//! one where `CI=true`. Under a plain `cargo test` the line goes to stderr alone.

use std::fs::OpenOptions;
use std::io::Write;

/// Notes that `test` cannot run because the machine lacks `what`. The test returns after that.
pub fn note(test: &str, what: &str) {
    let line = format!("{test}: {what}\n");
    eprint!("cannot run {line}");
    let Some(path) = std::env::var_os("INTERLEAF_LACKING") else { return };
    let file = OpenOptions::new().create(true).append(true).open(&path);
    // One write: lines of tests that run at the same time do not mix.
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .expect("INTERLEAF_LACKING names a file to append to");
}
