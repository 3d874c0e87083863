//! The points of the hugetlb pool of huge pages.

use super::Mutation;
use super::Test::{Model, Unit};

const PROGRESS_POOL: super::Test = Unit("space::tests::progress::pool");
const PIN_POOL: super::Test = Unit("space::tests::pin::pool");
const FORK_POOL_COW: super::Test = Unit("space::tests::fork::pool_cow");
const TAKE_BACK_POOL_PAGE: super::Test = Unit("space::tests::unmap_hugetlb_sharers");
const COUNTS: super::Test = Unit("frame::hugetlb::tests");
const EDITS: super::Test = Unit("space::tests::unmap::pool");
const FORK: super::Test = Unit("space::tests::fork::pool");
const PINS: super::Test = Unit("space::tests::pin::pool");

/// All of them.
pub const ALL: &[Mutation] = &[
    Mutation { point: "pool.reserved-twice", wrong: "more is set aside than there is", test: COUNTS },
    Mutation {
        point: "pool.reserve-taken",
        wrong: "a mapping without a reserve takes a page that is set aside",
        test: COUNTS,
    },
    Mutation {
        point: "pool.reserve-kept",
        wrong: "munmap leaves pages set aside for no mapping",
        test: Unit("space::tests::map::pool"),
    },
    Mutation {
        point: "pool.folio-freed-to-zone",
        wrong: "a page that was in use does not come back to the pool",
        test: Unit("space::tests::mbind::pool"),
    },
    Mutation {
        point: "pool.folio-not-zeroed",
        wrong: "a page shows what it held before",
        test: Unit("space::tests::fault::pool"),
    },
    Mutation { point: "pool.page-cut", wrong: "munmap and mprotect cut huge pages", test: EDITS },
    Mutation {
        point: "pool.restored-though-pinned",
        wrong: "a page is set aside again that a pin may keep for good",
        test: PINS,
    },
    Mutation {
        point: "pool.lost-page-absent",
        wrong: "a child finds zeros where its parent had stored something",
        test: TAKE_BACK_POOL_PAGE,
    },
    Mutation {
        point: "pool.fork-flush-skipped",
        wrong: "the parent stores to a page that its child has",
        test: FORK,
    },
    Mutation {
        point: "pool.fork-ignored",
        wrong: "a fault of the parent allows stores to a page that was passed by a fork under way",
        test: Model("loom_a_fork_that_shares_two_pages_against_stores_to_both"),
    },
    Mutation {
        point: "pool.fork-cursor-not-advanced",
        wrong: "a fork does not say which pages of the pool it has passed",
        test: Model("loom_a_fork_that_shares_two_pages_against_stores_to_both"),
    },
    Mutation {
        point: "pool.copies-not-waited-for",
        wrong: "a store finds the pool empty while another one copies the page and leaves it the old one",
        test: Model("loom_stores_of_two_spaces_to_one_page_of_a_pool_that_has_one_more"),
    },
    Mutation {
        point: "pool.copy-of-another",
        wrong: "a copy is installed over another page than the one that was copied",
        test: Unit("space::fault::tests::pool_copy"),
    },
    Mutation {
        point: "pool.copied-before-flush",
        wrong: "a page is copied while a fork that shares it has not flushed",
        test: FORK_POOL_COW,
    },
    Mutation {
        point: "pool.copy-flush-skipped",
        wrong: "a CPU loads from the page that was copied",
        test: FORK_POOL_COW,
    },
    Mutation {
        point: "pool.restored-though-shared",
        wrong: "a page is set aside again that a child has",
        test: Unit("space::tests::madvise::pool"),
    },
    Mutation {
        point: "pool.taken-before-flush",
        wrong: "a child loads from a page that was taken from it",
        test: TAKE_BACK_POOL_PAGE,
    },
    Mutation {
        point: "pool.taken-by-a-child",
        wrong: "a child takes a page from its parent",
        test: FORK_POOL_COW,
    },
    Mutation {
        point: "pool.shared-copied",
        wrong: "a child has a copy of what it shares with its parent",
        test: PIN_POOL,
    },
    Mutation {
        point: "pool.object-reserve-kept",
        wrong: "shared memory counts a page as set aside that it has got",
        test: PIN_POOL,
    },
    Mutation {
        point: "pool.object-reserve-lost",
        wrong: "what is set aside for shared memory stays so when it ends",
        test: Unit("space::tests::protect::pool"),
    },
    Mutation {
        point: "pool.backing-kept-between-attempts",
        wrong: "a fault keeps a page of an object that has ended, which the next mapping lacks",
        test: Model("loom_a_fault_against_munmap_of_the_last_mapping"),
    },
    Mutation {
        point: "pool.astray-not-noted",
        wrong: "a fault waits for a page as long as a caller keeps a reference to it",
        test: PROGRESS_POOL,
    },
    Mutation {
        point: "pool.taken-though-kept",
        wrong: "a child loses its page though a reference keeps its owner from having it",
        test: PROGRESS_POOL,
    },
    Mutation {
        point: "pool.surplus-noted-late",
        wrong: "a page that comes back while the pool is made smaller stays",
        test: PROGRESS_POOL,
    },
    Mutation {
        point: "progress.never-ends",
        wrong: "a retry without progress goes on for ever",
        test: Unit("space::tests::progress"),
    },
    Mutation {
        point: "pool.kept-taken-for-empty",
        wrong: "a fault that comes second to its page ends with a bus error",
        test: Model("loom_two_faults_race_for_one_page_that_is_set_aside"),
    },
    Mutation {
        point: "pool.entry-not-rechecked",
        wrong: "a page is installed over the one that another fault has put there",
        test: Model("loom_two_faults_race_for_the_only_page_of_an_object"),
    },
];
