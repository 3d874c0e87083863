//! The points of collapse: a huge page in the place of base pages.

use super::Mutation;
use super::Test::{Model, Unit};

const COLLAPSE_STEPS: super::Test = Unit("space::tests::collapse::steps");
const COLLAPSE_REGIONS: super::Test = Unit("space::tests::collapse::regions");
const ZERO: super::Test = Unit("space::tests::collapse::huge");

/// All of them.
pub const ALL: &[Mutation] = &[
    Mutation {
        point: "collapse.rest-not-zeroed",
        wrong: "pages that held nothing show what the folio held",
        test: COLLAPSE_REGIONS,
    },
    Mutation {
        point: "collapse.refused-reference-skipped",
        wrong: "a page whose frame has too many references becomes zeros",
        test: COLLAPSE_REGIONS,
    },
    Mutation {
        point: "collapse.pin-ignored",
        wrong: "the page of a frame that is being pinned gets another one",
        test: Model("loom_a_collapse_against_a_fast_pin_of_a_page_of_it"),
    },
    Mutation {
        point: "collapse.written-not-copied-again",
        wrong: "what was stored while the region was copied is lost",
        test: COLLAPSE_STEPS,
    },
    Mutation {
        point: "collapse.taken-not-noted",
        wrong: "what a fault stored after the last look is lost",
        test: Model("loom_a_collapse_against_two_stores_to_a_page_of_it"),
    },
    Mutation {
        point: "collapse.left-writable",
        wrong: "programs store to pages that are copied, and no fault says so",
        test: COLLAPSE_REGIONS,
    },
    Mutation {
        point: "collapse.weakened-not-flushed",
        wrong: "a TLB still allows stores to pages that are copied",
        test: COLLAPSE_REGIONS,
    },
    Mutation {
        point: "collapse.flush-skipped",
        wrong: "a TLB holds base pages, and the huge page in their place",
        test: COLLAPSE_REGIONS,
    },
    Mutation {
        point: "collapse.installed-before-flush",
        wrong: "a TLB may hold a page and the huge page that has replaced it",
        test: COLLAPSE_STEPS,
    },
    Mutation {
        point: "collapse.discards-not-held",
        wrong: "what MADV_DONTNEED has dropped comes back with the copy",
        test: Model("loom_a_collapse_against_dontneed_of_a_page_of_it"),
    },
    Mutation {
        point: "collapse.zeros-refused",
        wrong: "MADV_COLLAPSE fails where the huge zero page is mapped, which Linux takes for done",
        test: ZERO,
    },
];
