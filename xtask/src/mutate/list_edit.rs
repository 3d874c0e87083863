//! The points of writers that have published and edit entries beside readers.

use super::Mutation;
use super::Test::{Lab, Model};

/// All of them.
pub const ALL: &[Mutation] = &[
    Mutation {
        point: "published.writer-let-in",
        wrong: "a writer that has published lets other writers in before it has flushed",
        test: Lab("seeded", "pairs::every_pair_of_operations_ends_as_some_order_of_them_would_on_x86"),
    },
    Mutation {
        point: "published.pending-too-late",
        wrong: "an edit counts as pending only after readers were let in",
        test: Model("loom_a_refused_fault_comes_after_the_flush"),
    },
    Mutation {
        point: "fault.refused-before-flush",
        wrong: "a fault is refused because of a mapping whose flush has not ended",
        test: Model("loom_a_refused_fault_comes_after_the_flush"),
    },
    Mutation {
        point: "fault.busy-trusted",
        wrong: "a locked fault trusts a mapping whose entries its publisher still clears",
        test: Model("loom_a_locked_fault_in_a_mapping_that_is_put_over_others_and_has_an_identity"),
    },
];
