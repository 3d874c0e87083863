//! The points of the huge zero page, and of the table in its place.

use super::Mutation;
use super::Test::{Model, Unit};

const FLUSH_HUGE: super::Test = Unit("space::tests::flush::huge");
const FORK_ZERO: super::Test = Unit("space::tests::fork::zero");
const PAGES: super::Test = Unit("frame::huge_zero::tests");
const KNOWN: super::Test = Unit("space::fault::tests::known_zero");

/// All of them.
pub const ALL: &[Mutation] = &[
    Mutation {
        point: "zero.shrunk-while-used",
        wrong: "the page is taken away from spaces that map it",
        test: PAGES,
    },
    Mutation {
        point: "zero.got-relaxed",
        wrong: "a space maps the page without having seen that it was zeroed and marked",
        test: Model("loom_two_getters_that_both_allocate_use_one_page"),
    },
    Mutation {
        point: "zero.losers-page-lost",
        wrong: "of two pages that were allocated at once one is lost",
        test: Model("loom_two_getters_that_both_allocate_use_one_page"),
    },
    Mutation { point: "zero.reference-kept", wrong: "a space that has ended uses the page", test: PAGES },
    Mutation {
        point: "zero.second-reference-kept",
        wrong: "a space of which two threads began at once keeps the page for good",
        test: Model("loom_two_threads_of_a_space_take_one_reference"),
    },
    Mutation {
        point: "zero.known-mapping-not-rechecked",
        wrong: "a load maps zeros where munmap has just looked",
        test: KNOWN,
    },
    Mutation {
        point: "zero.known-leaf-writable",
        wrong: "a program writes to the page that a second load has mapped",
        test: KNOWN,
    },
    Mutation { point: "zero.huge-leaf-writable", wrong: "a program writes to the page", test: FORK_ZERO },
    Mutation {
        point: "zero.huge-not-flushed",
        wrong: "a CPU goes on reading zeros after another has stored",
        test: Unit("space::tests::fault::zero"),
    },
    Mutation {
        point: "zero.split-as-given",
        wrong: "a split leaf shows frames inside of the page, which may be freed",
        test: FORK_ZERO,
    },
    Mutation {
        point: "zero.fork-cursor-not-advanced",
        wrong: "a store during a fork is in the child, where an earlier one is not",
        test: super::Test::Lab("seeded", "zero_races::whatever_meets_at_the_huge_zero_page"),
    },
    Mutation {
        point: "zero.fork-ignored",
        wrong: "a store behind the cursor of a fork goes on",
        test: super::Test::Lab("seeded", "zero_races::whatever_meets_at_the_huge_zero_page"),
    },
    Mutation {
        point: "zero.replaced-though-refused",
        wrong: "a store brings a huge page where those were refused since the load",
        test: Unit("space::tests::fault::zero"),
    },
    Mutation {
        point: "zero.table-placed-relaxed",
        wrong: "a CPU shows the table of zeros without having seen that it was filled",
        test: Model("loom_two_cpus_that_both_want_the_table_of_zeros_show_one"),
    },
    Mutation {
        point: "zero.table-half-filled",
        wrong: "half of the table of zeros shows nothing",
        test: Unit("table::tests::zero_table"),
    },
    Mutation {
        point: "zero.table-made-writable",
        wrong: "a slot allows stores to all pages that the table of zeros shows",
        test: Unit("space::tests::protect::huge"),
    },
    Mutation {
        point: "zero.table-translated-as-block",
        wrong: "a walker is told frames beside the table of zeros",
        test: Unit("space::tests::walk::huge"),
    },
    Mutation {
        point: "zero.table-flushed-as-leaf",
        wrong: "a store or a split leaves TLBs all pages of the table of zeros but one",
        test: FLUSH_HUGE,
    },
    Mutation {
        point: "zero.table-unhooked-as-leaf",
        wrong: "munmap leaves TLBs all pages of the table of zeros but one",
        test: FLUSH_HUGE,
    },
];
