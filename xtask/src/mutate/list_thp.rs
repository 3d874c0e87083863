//! The points of transparent huge pages: huge leaves that own a block, their faults and their splits.

use super::Mutation;
use super::Test::{Model, Unit};

const FAULTS: super::Test = Unit("space::tests::huge::faults");
const EDITS: super::Test = Unit("space::tests::huge::edits");

/// All of them.
pub const ALL: &[Mutation] = &[
    Mutation { point: "alloc.folio-not-zeroed", wrong: "a huge page shows what its block held", test: EDITS },
    Mutation {
        point: "zone.huge-block-not-noted",
        wrong: "faults believe that no block is free, and never allocate one",
        test: FAULTS,
    },
    Mutation { point: "thp.refusal-ignored", wrong: "memory that refuses huge pages gets one", test: FAULTS },
    Mutation {
        point: "thp.advice-not-noted",
        wrong: "writers do not look for the huge pages of a mapping that asked for them",
        test: Unit("huge::faults::a_mapping_that_asks_for_huge_pages_is_split_where_a_range_cuts_it"),
    },
    Mutation {
        point: "split.lazyfree-lost",
        wrong: "the frames of a split block are not to be discarded any more",
        test: EDITS,
    },
    Mutation {
        point: "pin.fast-huge-pinned",
        wrong: "a fast pin of a part pins the first frame",
        test: EDITS,
    },
    Mutation {
        point: "thp.entry-not-rechecked",
        wrong: "a huge page is installed over what another fault has put there",
        test: Model("loom_two_faults_race_for_one_huge_page"),
    },
    Mutation {
        point: "thp.fork-ignored",
        wrong: "a fault installs a huge page that a fork under way has passed",
        test: FAULTS,
    },
    Mutation {
        point: "zap.huge-unlocked-before-flush",
        wrong: "another page is installed while a TLB holds the huge one",
        test: Model("loom_a_huge_page_that_is_discarded_against_a_store"),
    },
];
