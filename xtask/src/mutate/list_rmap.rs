//! The points of the reverse map.

use super::Mutation;
use super::Test::{Model, Unit};

const RMAP: super::Test = Unit("space::tests::rmap");

/// All of them.
pub const ALL: &[Mutation] = &[
    Mutation {
        point: "rmap.descendants-left-out",
        wrong: "a walk for a frame looks at the space of its key alone",
        test: RMAP,
    },
    Mutation {
        point: "rmap.first-found-only",
        wrong: "a walk for a frame ends at the first entry",
        test: RMAP,
    },
    Mutation {
        point: "rmap.not-walked-again",
        wrong: "a walk that has found another number of entries than there are is taken for an answer",
        test: RMAP,
    },
    Mutation {
        point: "rmap.frame-not-compared",
        wrong: "whatever the page of the key maps is taken for an entry of the frame",
        test: RMAP,
    },
    Mutation {
        point: "rmap.named-node-freed",
        wrong: "the node of an ended space is freed while frames name it",
        test: RMAP,
    },
    Mutation {
        point: "rmap.ended-node-left",
        wrong: "no fork takes over the number of an ended space, so that each leaves a node",
        test: RMAP,
    },
    Mutation {
        point: "rmap.copy-born-elsewhere",
        wrong: "the record of a copy names another page than the one that it is for",
        test: RMAP,
    },
    Mutation {
        point: "rmap.birth-after-kind",
        wrong: "a frame becomes user memory before its anon key is noted",
        test: Model("loom_a_reference_comes_with_the_anon_key"),
    },
    Mutation {
        point: "rmap.link-taken-for-page",
        wrong: "a link of a gather is taken for a page",
        test: Unit("frame::record::anon_key"),
    },
    Mutation {
        point: "rmap.other-space-believed",
        wrong: "an entry of a space that was not asked for is taken for one of the frame's",
        test: Unit("space::tests::rmap"),
    },
    Mutation {
        point: "rmap.other-system-believed",
        wrong: "an entry of another system's space is taken for one of the frame's",
        test: RMAP,
    },
    Mutation {
        point: "rmap.visited-under-lock",
        wrong: "a visitor of the reverse map waits for the table that the walk has locked",
        test: Unit("space::tests::visitors"),
    },
    Mutation {
        point: "rmap.number-given-twice",
        wrong: "after 2^32 nodes one has the number of another",
        test: Unit("anon::node::tests"),
    },
];
