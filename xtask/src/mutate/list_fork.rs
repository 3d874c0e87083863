//! The points of fork and of copies on write.

use super::Mutation;
use super::Test::{Model, Unit};

const FORK: super::Test = Unit("space::tests::fork");
const SNAPSHOT: super::Test = Model("loom_a_child_has_no_store_without_those_before_it");

/// All of them.
pub const ALL: &[Mutation] = &[
    Mutation {
        point: "fork.parent-left-writable",
        wrong: "the parent's entry still allows writes after a fork",
        test: FORK,
    },
    Mutation {
        point: "fork.exclusive-kept",
        wrong: "a frame stays exclusive though a child maps it",
        test: FORK,
    },
    Mutation {
        point: "fork.flush-skipped",
        wrong: "a CPU keeps the right to write what a child maps",
        test: Model("loom_a_store_through_an_old_translation_reaches_the_child_or_waits"),
    },
    Mutation {
        point: "fork.cursor-not-advanced",
        wrong: "a fork does not say how far it has come",
        test: SNAPSHOT,
    },
    Mutation {
        point: "fault.fork-cursor-ignored",
        wrong: "a write fault goes on behind the cursor of a fork",
        test: SNAPSHOT,
    },
    Mutation {
        point: "madvise.beside-fork",
        wrong: "contents are dropped while a fork is under way",
        test: Model("loom_a_child_has_no_store_without_the_dontneed_before_it"),
    },
    Mutation {
        point: "cow.reuse-ignores-mapcount",
        wrong: "a frame that another space maps is written without a copy",
        test: FORK,
    },
    Mutation {
        point: "cow.flush-skipped",
        wrong: "a CPU goes on reading the frame that another one has copied and written",
        test: Model("loom_a_copy_on_write_against_a_reader"),
    },
    Mutation {
        point: "table.shared-frame-made-writable",
        wrong: "more rights make an entry of a shared frame writable",
        test: FORK,
    },
];
