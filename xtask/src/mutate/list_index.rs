//! The points of the index, RCU and the pools: checks without which safe code could break memory safety.

use super::Mutation;
use super::Test::Unit;

const MISUSE: super::Test = Unit("index::tests::misuse");

/// All of them. Their numbers follow those of `list_jobs`.
pub const ALL: &[Mutation] = &[
    Mutation {
        point: "rcu.section-not-checked",
        wrong: "a lookup goes ahead under the read guard of another RCU",
        test: MISUSE,
    },
    Mutation {
        point: "index.memory-not-checked",
        wrong: "an index is edited with the memory of another",
        test: MISUSE,
    },
];
