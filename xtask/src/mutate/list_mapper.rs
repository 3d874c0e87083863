//! The points of the mapper of tables alone, and of leaves that own nothing.

use super::Mutation;
use super::Test::Unit;

const MAPPER: super::Test = Unit("table::tests::mapper");
const NOT_OWNED: super::Test = Unit("table::tests::not_owned");

/// All of them.
pub const ALL: &[Mutation] = &[
    Mutation {
        point: "mapper.failed-left-mapped",
        wrong: "a call that lacks memory leaves mapped what it has mapped so far",
        test: MAPPER,
    },
    Mutation { point: "mapper.mapped-over", wrong: "a page is mapped over another one", test: MAPPER },
    Mutation {
        point: "mapper.unmap-flush-skipped",
        wrong: "pages that were unmapped are not flushed",
        test: MAPPER,
    },
    Mutation {
        point: "mapper.protect-flush-skipped",
        wrong: "pages whose rights were taken are not flushed",
        test: MAPPER,
    },
    Mutation {
        point: "mapper.more-than-given",
        wrong: "frames and rights are mapped that are not allowed",
        test: MAPPER,
    },
    Mutation {
        point: "table.given-leaf-raised",
        wrong: "a leaf of a PFN mapping gets rights that its frames do not allow",
        test: NOT_OWNED,
    },
    Mutation {
        point: "fork.given-frame-counted",
        wrong: "a fork counts a mapping of a frame that the parent's entry does not own",
        test: NOT_OWNED,
    },
];
