//! The points of transparent huge pages: huge leaves that own a folio, their faults and their splits.

use super::Mutation;
use super::Test::{Lab, Model, Unit};

const FAULT_HUGE: super::Test = Unit("space::tests::fault::huge");
const MADVISE_HUGE: super::Test = Unit("space::tests::madvise::huge");
const SHARED: super::Test = Unit("space::tests::fork::huge");
const UNMAP_HUGE: super::Test = Unit("space::tests::unmap::huge");
const CUTS: super::Test =
    Lab("modelled", "huge::no_huge_page_reaches_beyond_what_a_writer_has_left_of_its_mapping");

/// All of them.
pub const ALL: &[Mutation] = &[
    Mutation {
        point: "alloc.folio-not-zeroed-by-helpers",
        wrong: "a huge page that helpers were to zero shows what its folio held",
        test: Unit("space::tests::populate::base::a_huge_page_is_zero_whoever_has_zeroed_its_parts"),
    },
    Mutation {
        point: "alloc.folio-not-zeroed",
        wrong: "a huge page shows what its folio held",
        test: MADVISE_HUGE,
    },
    Mutation {
        point: "zone.largest-block-not-noted",
        wrong: "faults believe that no block is free, and never allocate one",
        test: FAULT_HUGE,
    },
    Mutation {
        point: "thp.refusal-ignored",
        wrong: "memory that refuses huge pages gets one",
        test: FAULT_HUGE,
    },
    Mutation {
        point: "thp.advice-not-noted",
        wrong: "writers do not look for the huge pages of a mapping that asked for them",
        test: Unit(
            "space::tests::unmap::huge::a_mapping_that_asks_for_huge_pages_is_split_where_a_range_cuts_it",
        ),
    },
    Mutation {
        point: "split.lazyfree-lost",
        wrong: "the frames of a split folio are not to be discarded any more",
        test: MADVISE_HUGE,
    },
    Mutation {
        point: "pin.fast-huge-pinned",
        wrong: "a fast pin of a part pins the first frame",
        test: Unit("space::tests::pin::huge"),
    },
    Mutation {
        point: "thp.entry-not-rechecked",
        wrong: "a huge page is installed over what another fault has put there",
        test: Model("loom_two_faults_race_for_one_huge_page"),
    },
    Mutation {
        point: "thp.region-not-rechecked",
        wrong: "a huge page reaches beyond the mapping that is left of the one it was meant for",
        test: CUTS,
    },
    Mutation {
        point: "split.looked-without-lock",
        wrong: "a writer takes an entry for absent in which a fault is about to put a huge page",
        test: CUTS,
    },
    Mutation {
        point: "split.reserved-for-leaves-only",
        wrong: "no table is put aside for the huge page that a fault installs before the publication",
        test: Lab("modelled", "huge::pairs_of_operations_on_huge_pages_lose_nothing_on_x86"),
    },
    Mutation {
        point: "thp.fork-ignored",
        wrong: "a fault installs a huge page that a fork under way has passed",
        test: FAULT_HUGE,
    },
    Mutation {
        point: "zap.huge-unlocked-before-flush",
        wrong: "another page is installed while a TLB holds the huge one",
        test: Model("loom_a_huge_page_that_is_discarded_where_it_is_cached_against_a_store"),
    },
    Mutation {
        point: "madvise.freed-beyond-range",
        wrong: "a part that may be discarded makes all of its huge page go",
        test: MADVISE_HUGE,
    },
    Mutation {
        point: "map.tables-kept",
        wrong: "memory that is mapped over a whole region gets base pages for ever",
        test: Unit("space::tests::map::huge"),
    },
    Mutation {
        point: "madvise.free-splits-zeros",
        wrong: "MADV_FREE of a part of the huge zero page splits it",
        test: MADVISE_HUGE,
    },
    Mutation {
        point: "thp.fork-left-writable",
        wrong: "the parent goes on to write a huge page that the child has",
        test: SHARED,
    },
    Mutation {
        point: "thp.fork-flush-skipped",
        wrong: "a CPU writes a huge page that the child has through its TLB",
        test: UNMAP_HUGE,
    },
    Mutation {
        point: "thp.fork-cursor-not-advanced",
        wrong: "a store to a huge page does not reach the child, and a later one does",
        test: Unit("space::ops::fork_leaf::tests"),
    },
    Mutation {
        point: "thp.reuse-ignores-leaves",
        wrong: "a huge page is written that another space has",
        test: SHARED,
    },
    Mutation {
        point: "thp.rejoined-though-referenced",
        wrong: "a frame becomes part of a folio while there is a reference to it",
        test: SHARED,
    },
    Mutation {
        point: "thp.parts-counted-once",
        wrong: "the split of one space's leaf forgets the leaves of the others",
        test: SHARED,
    },
    Mutation {
        point: "thp.split-ended-relaxed",
        wrong: "a leaf ends without seeing that its folio was split",
        test: Model("loom_a_leaf_that_ends_against_a_split_of_its_folio"),
    },
    Mutation {
        point: "zap.shared-huge-uncounted",
        wrong: "huge pages that a child has had stay in the count",
        test: SHARED,
    },
    Mutation {
        point: "rmap.part-of-huge-missed",
        wrong: "the reverse map passes by a huge leaf of a folio that another space has split",
        test: Unit("space::tests::rmap::huge"),
    },
];
