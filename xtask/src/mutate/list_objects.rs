//! The points of mappings of objects: private ones, ends of objects, pagers.

use super::Mutation;
use super::Test::{Model, Unit};

const PINS: super::Test = Unit("space::tests::pin::object");
const WAITS: super::Test = Model("loom_a_fault_that_waits_for_a_page_is_woken");

/// All of them.
pub const ALL: &[Mutation] = &[
    Mutation {
        point: "fault.object-page-writable",
        wrong: "a load in a private mapping lets stores reach the object",
        test: Unit("space::tests::fault::object"),
    },
    Mutation {
        point: "pin.object-page-pinned",
        wrong: "a pin in a private mapping is one of the object's page, which the page does not keep",
        test: PINS,
    },
    Mutation { point: "pin.fast-object-pinned", wrong: "the same, of a pin without a lock", test: PINS },
    Mutation {
        point: "fork.object-not-frozen",
        wrong: "a mapping that a fork has passed over gets its first copy before the fork has flushed",
        test: Model("loom_a_child_has_no_store_without_the_first_copy_before_it"),
    },
    Mutation {
        point: "object.end-ignored",
        wrong: "a page beyond the end of an object is filled",
        test: Unit("space::tests::fault::beyond"),
    },
    Mutation { point: "pager.not-woken", wrong: "a page becomes ready, and no fault is woken", test: WAITS },
    Mutation {
        point: "pager.word-looked-at-late",
        wrong: "a fault looks at the word only after the pager has said that the page is not ready",
        test: WAITS,
    },
];
