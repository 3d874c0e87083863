//! The points of files: dirty pages, and how they are written back.

use super::Mutation;
use super::Test::{Model, Unit};

const PAGES: super::Test = Unit("space::tests::write_back::pages");
const ERRORS: super::Test = Unit("space::tests::write_back::errors");
const SEARCH: super::Test = Model("loom_a_page_is_marked_beside_a_search_that_finds_none");

/// All of them.
pub const ALL: &[Mutation] = &[
    Mutation {
        point: "fault.clean-page-writable",
        wrong: "a load lets later stores reach a page of a file that is clean",
        test: PAGES,
    },
    Mutation {
        point: "fault.dirty-not-rechecked",
        wrong: "a fault does not ask again, under the table's lock, whether its page is dirty",
        test: Model("loom_writing_back_against_a_fault_of_a_dirty_page"),
    },
    Mutation {
        point: "dirty.mark-not-fenced",
        wrong: "a page is marked without a fence before the nodes above it are looked at",
        test: SEARCH,
    },
    Mutation {
        point: "dirty.search-not-fenced",
        wrong: "a node loses its mark without a fence before what is below it is looked at again",
        test: SEARCH,
    },
    Mutation {
        point: "dirty.way-not-looked-at-again",
        wrong: "a page is marked on a way above which the index has grown",
        test: Model("loom_a_page_is_marked_while_its_index_grows"),
    },
    Mutation {
        point: "write-back.page-not-claimed",
        wrong: "a page that is being written is not marked so, and a sync does not wait for it",
        test: ERRORS,
    },
    Mutation {
        point: "write-back.failed-page-clean",
        wrong: "a page that could not be written is clean",
        test: ERRORS,
    },
    Mutation {
        point: "write-back.entries-kept-writable",
        wrong: "entries of a page that is written back let stores through",
        test: PAGES,
    },
    Mutation {
        point: "write-back.pending-flush-ignored",
        wrong: "a page is written though a CPU may store through an entry that munmap has cleared",
        test: PAGES,
    },
    Mutation {
        point: "truncate.writing-not-waited-for",
        wrong: "truncation and holes leave a page to the pager that it is writing",
        test: ERRORS,
    },
    Mutation {
        point: "write-back.begun-forgotten",
        wrong: "a writing that the pager has begun counts as ended once its page lies beyond the end",
        test: ERRORS,
    },
    Mutation {
        point: "write-back.passed-pages-forgotten",
        wrong: "a sync does not write what was stored to a page since another writer of it began",
        test: ERRORS,
    },
    Mutation {
        point: "write-back.store-not-noted",
        wrong: "what a pin or a copy has stored does not make its page dirty again",
        test: PAGES,
    },
    Mutation {
        point: "errors.reported-again",
        wrong: "a cursor reports an error of writing back each time",
        test: Unit("object::errors"),
    },
    Mutation {
        point: "around.mapping-not-asked",
        wrong: "a load maps pages around its own though their mapping was replaced",
        test: Model("loom_munmap_of_a_page_against_a_load_that_maps_around"),
    },
    Mutation {
        point: "write-back.panic-leaves-writing",
        wrong: "after a panic of the pager a sync waits for a page that no call writes",
        test: ERRORS,
    },
];
