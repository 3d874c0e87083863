//! Points of mremap.

use super::Mutation;
use super::Test::{Lab, Model, Unit};

const BASE: super::Test = Unit("space::tests::remap::base");
const PAIRS: super::Test = Lab("seeded", "every_pair_of_operations_ends_as_some_order_of_them_would_on_x86");
const OBJECT: super::Test = Unit("space::tests::remap::object");

/// All of them.
pub const ALL: &[Mutation] = &[
    Mutation {
        point: "remap.flush-skipped",
        wrong: "pages that have moved are in TLBs at their old addresses",
        test: BASE,
    },
    Mutation {
        point: "remap.born-live",
        wrong: "the new mapping is live while its entries are on their way",
        test: Model("loom_a_store_at_the_new_place_against_a_move"),
    },
    Mutation {
        point: "remap.source-left-live",
        wrong: "faults go on in the old mapping until its entries move",
        test: PAIRS,
    },
    Mutation {
        point: "remap.move-not-noted",
        wrong: "the reverse map does not look for pages that have moved",
        test: BASE,
    },
    Mutation {
        point: "remap.object-entries-moved",
        wrong: "pages of objects move, though a view may have them already",
        test: OBJECT,
    },
    Mutation {
        point: "remap.copies-beyond-end-kept",
        wrong: "copies beyond the end of their object survive a move that truncation has missed",
        test: OBJECT,
    },
    Mutation {
        point: "remap.overlap-allowed",
        wrong: "pages move over themselves",
        test: Unit("space::tests::remap::refused"),
    },
    Mutation {
        point: "remap.growth-uncommitted",
        wrong: "a mapping grows in place by more than can be committed",
        test: Unit("space::tests::remap::refused"),
    },
];
