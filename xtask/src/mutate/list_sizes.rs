//! The points of mTHP sizes.

use super::Mutation;
use super::Test::{Lab, Model, Unit};

/// All of them.
pub const ALL: &[Mutation] = &[
    Mutation {
        point: "sizes.mapping-ignored",
        wrong: "a folio reaches beyond its mapping",
        test: Unit(
            "space::tests::fault::sizes::\
             the_largest_folio_that_fits_the_mapping_and_the_absent_entries_is_installed",
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
        wrong: "a fault installs a folio of which a fork under way has passed some pages",
        test: Unit(
            "space::tests::fault::sizes::a_fault_for_a_folio_waits_for_a_fork_that_has_passed_its_first_page",
        ),
    },
    Mutation {
        point: "sizes.entries-not-rechecked",
        wrong: "a folio is installed over what another fault has put there",
        test: Model("loom_two_faults_race_for_one_folio"),
    },
    Mutation {
        point: "sizes.range-not-rechecked",
        wrong: "a folio reaches beyond the mapping that is left of the one it was meant for",
        test: Lab("modelled", "huge_sizes::no_folio_reaches_beyond_what_a_writer_has_left_of_its_mapping"),
    },
];
