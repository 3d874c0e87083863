//! The points of large ranges that several CPUs clear in parts, and of runs of huge leaves.

use super::Mutation;
use super::Test::Unit;

const TEARDOWN: super::Test = Unit("space::ops::tests::teardown");

/// All of them. Their numbers follow those of `list`.
pub const ALL: &[Mutation] = &[
    Mutation {
        point: "parts.freed-unflushed",
        wrong: "a part frees what it has unhooked before the flush of all",
        test: TEARDOWN,
    },
    Mutation {
        point: "parts.hull-not-joined",
        wrong: "pages that parts have edited are not flushed",
        test: TEARDOWN,
    },
    Mutation {
        point: "parts.slots-not-joined",
        wrong: "frames that parts have left in their slots stay there",
        test: TEARDOWN,
    },
    Mutation { point: "parts.list-lost", wrong: "a part's frames are lost", test: TEARDOWN },
    Mutation { point: "parts.flushed-each", wrong: "each part flushes", test: TEARDOWN },
    Mutation {
        point: "parts.huge-leaf-cut",
        wrong: "a part may begin inside of a huge leaf",
        test: Unit("space::edit::tests::parallel_zap"),
    },
    Mutation {
        point: "sweep.run-over-tables",
        wrong: "a run of huge leaves goes on over entries that point to tables",
        test: TEARDOWN,
    },
];
