//! The points of large ranges, which several CPUs clear in parts or pin, and of runs of huge leaves.

use super::Mutation;
use super::Test::Unit;

const TEARDOWN: super::Test = Unit("space::tests::unmap::large");
const PIN_RANGE: super::Test = Unit("space::tests::pin::range");

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
        point: "pin.range-kept",
        wrong: "pages before one that is refused stay pinned in the caller's buffer",
        test: PIN_RANGE,
    },
    Mutation {
        point: "pin.entry-passed-over",
        wrong: "a pin of several pages passes over the next page's entry",
        test: PIN_RANGE,
    },
    Mutation {
        point: "sweep.run-over-tables",
        wrong: "a run of huge leaves goes on over entries that point to tables",
        test: TEARDOWN,
    },
    Mutation {
        point: "exit.huge-uncounted",
        wrong: "huge pages that helpers have cleared count as there",
        test: Unit("space::tests::exit::large"),
    },
    Mutation {
        point: "exit.shared-frame-kept",
        wrong: "the end of a space clears entries of shared frames, and keeps their mappings",
        test: Unit("space::tests::fork"),
    },
    Mutation {
        point: "gather.deferred-forgotten",
        wrong: "frames that wait in their slots are lost where a huge page is flushed before",
        test: Unit("space::tests::unmap::huge"),
    },
];
