//! How many random cases a test plays.

/// `part` cases; `whole` of them where the environment has `INTERLEAF_WHOLE`, which `cargo xtask soak` sets.
pub fn cases(part: u64, whole: u64) -> u64 {
    if std::env::var_os("INTERLEAF_WHOLE").is_some() { whole } else { part }
}
