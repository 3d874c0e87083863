//! Points at which the library can be broken on purpose, so that its tests can be tested.
//!
//! `mutant!("gather.flush-skipped")` is a boolean. It is the constant `false`, and costs nothing, in every
//! build but those with the feature `mutants`: there it is true if the environment variable
//! `INTERLEAF_MUTANT` holds the point's name. `cargo xtask mutate` sets it, runs the test that the point's
//! entry in its list names, and fails where that test passes. A name stands at one place in the sources.
//!
//! The feature is the project's own and no part of the library's interface: it brings `std` in.

/// Whether the point of this name is broken in this run.
#[cfg(not(feature = "mutants"))]
macro_rules! mutant {
    ($point:literal) => {
        false
    };
}

/// Whether the point of this name is broken in this run.
#[cfg(feature = "mutants")]
macro_rules! mutant {
    ($point:literal) => {
        $crate::mutant::is_chosen($point)
    };
}

/// Whether `INTERLEAF_MUTANT` names this point. The variable is read once.
#[cfg(feature = "mutants")]
pub fn is_chosen(point: &str) -> bool {
    use std::{env, string::String, sync::OnceLock};
    static CHOSEN: OnceLock<Option<String>> = OnceLock::new();
    CHOSEN.get_or_init(|| env::var("INTERLEAF_MUTANT").ok()).as_deref() == Some(point)
}
