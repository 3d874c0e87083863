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
    Mutation {
        point: "object.left-before-flush",
        wrong: "an object loses the pages of a mapping before its entries are cleared and flushed",
        test: Unit("space::tests::rmap::object"),
    },
    Mutation {
        point: "views.child-first",
        wrong: "the view of a child is put in front of a walk that has not come to its parent",
        test: Unit("space::tests::truncate::base"),
    },
    Mutation {
        point: "views.object-and-space-coincide",
        wrong: "views of an object and a space have the numbers of those of another object and another space",
        test: Unit("space::tests::map::objects"),
    },
    Mutation {
        point: "seals.writable-mapping-ignored",
        wrong: "an object is sealed against writing while a mapping may store to it",
        test: Unit("space::tests::truncate::seals"),
    },
    Mutation {
        point: "seals.length-not-sealed",
        wrong: "a seal against another length is not asked",
        test: Unit("space::tests::truncate::seals"),
    },
    Mutation {
        point: "truncate.length-only",
        wrong: "a shorter object keeps the pages beyond its end, and so do the spaces",
        test: Unit("space::tests::truncate::base"),
    },
    Mutation {
        point: "truncate.newborn-missed",
        wrong: "a child that truncation could not find keeps copies beyond the end",
        test: Model("loom_truncation_against_a_child_that_can_be_found_from_now_on"),
    },
    Mutation {
        point: "hole.copies-dropped",
        wrong: "a hole takes private copies, too",
        test: Unit("space::tests::truncate::base"),
    },
    Mutation {
        point: "fault.end-not-rechecked",
        wrong: "a fault does not ask again, under the table's lock, whether its page lies beyond the end",
        test: Unit("space::fault::tests::install"),
    },
];
