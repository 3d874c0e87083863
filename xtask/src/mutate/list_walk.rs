//! The points of walkers without a lock.

use super::Mutation;
use super::Test::{Model, Unit};

/// All of them.
pub const ALL: &[Mutation] = &[
    Mutation {
        point: "pin.fast-shared-pinned",
        wrong: "a frame is pinned without a lock though a write copies it",
        test: Model("loom_a_fast_pin_against_a_fork"),
    },
    Mutation {
        point: "pin.fast-not-compared",
        wrong: "a pin without a lock does not look at the entry again",
        test: Model("loom_a_fast_pin_against_a_frame_that_is_freed_and_used_elsewhere"),
    },
    Mutation {
        point: "pin.fast-marked-by-store",
        wrong: "a pin without a lock stores an entry that was cleared meanwhile",
        test: Model("loom_a_fast_pin_that_marks_its_entry_against_a_frame_that_is_freed"),
    },
    Mutation {
        point: "pin.fast-dirty-not-set",
        wrong: "a pin to write without a lock leaves the entry as if nothing was written",
        test: Unit("space::tests::pin::fast"),
    },
];
