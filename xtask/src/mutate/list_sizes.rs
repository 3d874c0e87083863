//! The points of sizes between a base page and a huge page.

use super::Mutation;
use super::Test::{Lab, Model, Unit};

/// All of them.
pub const ALL: &[Mutation] = &[
    Mutation {
        point: "sizes.mapping-ignored",
        wrong: "a block reaches beyond its mapping",
        test: Unit(
            "space::tests::fault::sizes::\
             the_largest_block_that_fits_the_mapping_and_the_absent_entries_is_installed",
        ),
    },
    Mutation {
        point: "sizes.smaller-not-tried",
        wrong: "a fault that finds no block of the largest size gets a base page",
        test: Unit(
            "space::tests::fault::sizes_lack::\
             where_no_block_is_free_the_next_smaller_size_is_tried_and_its_lack_counted",
        ),
    },
    Mutation {
        point: "sizes.fork-ignored",
        wrong: "a fault installs a block of which a fork under way has passed some pages",
        test: Unit(
            "space::tests::fault::sizes::a_fault_for_a_block_waits_for_a_fork_that_has_passed_its_first_page",
        ),
    },
    Mutation {
        point: "sizes.entries-not-rechecked",
        wrong: "a block is installed over what another fault has put there",
        test: Model("loom_two_faults_race_for_one_block"),
    },
    Mutation {
        point: "sizes.range-not-rechecked",
        wrong: "a block reaches beyond the mapping that is left of the one it was meant for",
        test: Lab("modelled", "huge_sizes::no_block_reaches_beyond_what_a_writer_has_left_of_its_mapping"),
    },
];
