//! The points of what a flush tells those that copy translations, and of markers.

use super::Mutation;
use super::Test::Unit;

const HUGE: super::Test =
    Unit("space::tests::flush::huge::what_clears_or_weakens_a_huge_leaf_tells_each_of_its_pages");
const FORK: super::Test =
    Unit("space::tests::flush::huge::a_fork_tells_each_page_of_the_leaf_that_may_not_be_written_any_more");
const ZEROS: super::Test = Unit("space::tests::flush::huge::a_store_to_zeros_tells_each_of_their_pages");
const END: super::Test = Unit("space::tests::flush::huge::the_end_of_a_space_tells_all_of_its_pages_first");
const OBJECT: super::Test = Unit("space::tests::flush::shared_huge");
const POOL: super::Test = Unit("space::tests::flush::pool");
const PARTS: super::Test = Unit("tlb::tests::edited::what_parts_have_edited_is_told_whole");
const GUARD: super::Test = Unit("space::tests::markers");

/// All of them.
pub const ALL: &[Mutation] = &[
    Mutation {
        point: "gather.leaf-tells-one-page",
        wrong: "a device keeps 511 pages of a huge leaf that was cleared",
        test: HUGE,
    },
    Mutation {
        point: "fork.leaf-tells-one-page",
        wrong: "a device may write 511 pages of a huge leaf that a child shares",
        test: FORK,
    },
    Mutation {
        point: "split.flush-tells-one-page",
        wrong: "a device keeps 511 pages of a leaf that was split, one of which is unmapped next",
        test: HUGE,
    },
    Mutation {
        point: "cow.flush-tells-one-page",
        wrong: "a device reads zeros in the pages beside one that was stored to",
        test: ZEROS,
    },
    Mutation {
        point: "shared-thp.flush-tells-one-page",
        wrong: "a device keeps 511 pages of an object's folio whose leaf was cleared",
        test: OBJECT,
    },
    Mutation {
        point: "pool.flush-tells-one-page",
        wrong: "a device keeps 511 pages of a hugetlb page that was taken back",
        test: POOL,
    },
    Mutation {
        point: "parts.leaf-tells-one-page",
        wrong: "of a leaf that a part has cleared one page is told",
        test: PARTS,
    },
    Mutation {
        point: "parts.empty-part-joined",
        wrong: "a part that has edited nothing makes the flush begin at page 0",
        test: PARTS,
    },
    Mutation {
        point: "exit.copies-not-told",
        wrong: "a device keeps pages of a space that ends, whose frames are free",
        test: END,
    },
    Mutation {
        point: "fork.marker-left-out",
        wrong: "a child may use a page that is none in its parent",
        test: GUARD,
    },
];
