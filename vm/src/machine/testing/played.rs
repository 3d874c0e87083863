//! How much a test plays.

/// `part` of the cases of a test, or of the preemptions of a model; `whole` where the environment has
/// `INTERLEAF_WHOLE`, which `cargo xtask soak` sets.
pub fn played<T>(part: T, whole: T) -> T {
    if std::env::var_os("INTERLEAF_WHOLE").is_some() { whole } else { part }
}
