//! The points of huge pages of shared memory.

use super::Mutation;
use super::Test::{Model, Unit};

const MAP_SHARED_HUGE: super::Test = Unit("space::tests::map::shared_huge");

const ONE_MAPPING: super::Test = Unit("space::tests::fault::shared_huge");

/// All of them.
pub const ALL: &[Mutation] = &[
    Mutation {
        point: "shared-thp.offset-ignored",
        wrong: "a huge leaf is wanted where it would show other pages than its mapping says",
        test: ONE_MAPPING,
    },
    Mutation {
        point: "shared-thp.place-unaligned",
        wrong: "shared memory that may go anywhere is put where no huge page fits",
        test: MAP_SHARED_HUGE,
    },
    Mutation {
        point: "shared-thp.parts-unmapped",
        wrong: "frames of a folio that is split do not count the huge leaves that map it",
        test: Unit("space::tests::fault::shared_huge"),
    },
    Mutation {
        point: "shared-thp.not-noted",
        wrong: "munmap of a part of shared memory does not look for a huge leaf at its ends",
        test: MAP_SHARED_HUGE,
    },
    Mutation {
        point: "shared-thp.flush-skipped",
        wrong: "a CPU goes on to use a huge leaf of shared memory that a call has cleared",
        test: Unit("space::tests::unmap::shared_huge"),
    },
    Mutation {
        point: "shared-thp.dead-filled",
        wrong: "shared memory that has ended gets a huge page, which is never freed",
        test: Model("loom_a_fault_that_fills_an_object_against_its_end"),
    },
    Mutation {
        point: "shared-thp.region-not-rechecked",
        wrong: "a huge leaf of shared memory reaches beyond what munmap has left of its mapping",
        test: Model("loom_a_fault_that_maps_a_folio_against_munmap_of_its_end"),
    },
];
