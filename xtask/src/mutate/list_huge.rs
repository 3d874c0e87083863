//! The points of huge leaves.

use super::Mutation;
use super::Test::Unit;

const MAP_PFN: super::Test = Unit("space::tests::map::given");

/// All of them.
pub const ALL: &[Mutation] = &[
    Mutation {
        point: "split.flush-skipped",
        wrong: "a TLB holds a huge leaf beside the parts that it was split into",
        test: MAP_PFN,
    },
    Mutation {
        point: "split.bits-lost",
        wrong: "the parts of a leaf forget that it was used",
        test: MAP_PFN,
    },
    Mutation {
        point: "split.end-left-whole",
        wrong: "a writer changes all of the huge leaf that its range cuts at the end",
        test: MAP_PFN,
    },
];
