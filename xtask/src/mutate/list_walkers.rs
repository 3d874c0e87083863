//! The points of scans, translations, searches and call chains.

use super::Mutation;
use super::Test::{Model, Unit};

const WALK_CALL_CHAIN: super::Test = Unit("space::tests::walk::call_chain");
const WALK_ADDRESS: super::Test = Unit("space::tests::walk::address");
const WALK_ACCESSED: super::Test = Unit("space::tests::walk::accessed");
/// All of them.
pub const ALL: &[Mutation] = &[
    Mutation {
        point: "accessed.cleared-by-store",
        wrong: "a scan stores an entry that was cleared meanwhile",
        test: Model("loom_a_scan_against_an_unhook"),
    },
    Mutation {
        point: "accessed.dirty-cleared-too",
        wrong: "a scan forgets that a page was written",
        test: WALK_ACCESSED,
    },
    Mutation {
        point: "accessed.idle-leaf-counted",
        wrong: "a scan counts a page again whose bit another one has cleared meanwhile",
        test: Model("loom_two_scans_of_one_page"),
    },
    Mutation {
        point: "accessed.flush-skipped",
        wrong: "a page that a CPU has cached looks idle after a scan that flushes",
        test: WALK_ACCESSED,
    },
    Mutation {
        point: "translate.rights-ignored",
        wrong: "an emulator stores to a page that does not allow it",
        test: WALK_ADDRESS,
    },
    Mutation {
        point: "translate.first-frame-of-leaf",
        wrong: "each page of a huge leaf leads to its first frame",
        test: WALK_ADDRESS,
    },
    Mutation {
        point: "translate.marked-by-store",
        wrong: "an emulator that marks an entry brings back what was taken away meanwhile",
        test: Model("loom_a_translation_that_marks_its_entry_against_dontneed"),
    },
    Mutation {
        point: "find.large-leaf-passed-by",
        wrong: "a search finds the first frame of a huge leaf only",
        test: WALK_ADDRESS,
    },
    Mutation {
        point: "read-here.foreign-space-read",
        wrong: "a word is read on a CPU that no flush waits for",
        test: WALK_CALL_CHAIN,
    },
    Mutation {
        point: "read-here.interrupts-left-on",
        wrong: "a CPU says that it has flushed between the entry and the word",
        test: Model("loom_a_word_against_a_frame_that_is_freed_and_used_elsewhere"),
    },
    Mutation {
        point: "call-chain.circle-followed",
        wrong: "a program whose chain is a circle keeps its profiler",
        test: WALK_CALL_CHAIN,
    },
    Mutation {
        point: "scan.platforms-slots-read",
        wrong: "a scan of all pages clears marks in the platform's own entries",
        test: Unit("table::tests::not_owned"),
    },
    Mutation {
        point: "read-here.first-frame-of-leaf",
        wrong: "a handler reads the first frame of a huge page for each of its pages",
        test: Unit("space::tests::walk::huge"),
    },
    Mutation {
        point: "pin.last-block-left",
        wrong: "the last pages of a range that begins in the middle of a table are not pinned",
        test: Unit("space::tests::pin::range"),
    },
];
