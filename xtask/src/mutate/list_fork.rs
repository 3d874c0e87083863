//! The points of fork, of copies on write, of pins, and of what a process may see of another.

use super::Mutation;
use super::Test::{Lab, Model, Unit};

const UNMAP_SHARED_FRAMES: super::Test = Unit("space::tests::unmap::shared_frames");
const FORK: super::Test = Unit("space::tests::fork");
const SNAPSHOT: super::Test = Model("loom_a_child_has_no_store_without_those_before_it");

const PIN: super::Test = Unit("space::tests::pin");

/// All of them.
pub const ALL: &[Mutation] = &[
    Mutation {
        point: "fork.parent-left-writable",
        wrong: "the parent's entry still allows writes after a fork",
        test: FORK,
    },
    Mutation {
        point: "fork.exclusive-kept",
        wrong: "a frame stays exclusive though a child maps it",
        test: FORK,
    },
    Mutation {
        point: "fork.flush-skipped",
        wrong: "a CPU keeps the right to write what a child maps",
        test: Model("loom_a_store_through_an_old_translation_reaches_the_child_or_waits"),
    },
    Mutation {
        point: "fork.cursor-not-advanced",
        wrong: "a fork does not say how far it has come",
        test: SNAPSHOT,
    },
    Mutation {
        point: "fault.fork-cursor-ignored",
        wrong: "a write fault goes on behind the cursor of a fork",
        test: SNAPSHOT,
    },
    Mutation {
        point: "fork.not-committed",
        wrong: "a fork commits no memory",
        test: Lab("modelled", "processes::processes_whose_faults_speculate_agree_with_the_model"),
    },
    Mutation {
        point: "alloc.frame-not-zeroed",
        wrong: "a process gets a frame as another one has left it",
        test: Lab("running", "secrets::memory_of_another_process_is_never_seen_on_x86"),
    },
    Mutation {
        point: "fault.read-waits-for-fork",
        wrong: "a read fault behind the cursor of a fork waits for its end",
        test: Model("loom_a_read_fault_goes_on_beside_a_fork"),
    },
    Mutation {
        point: "madvise.beside-fork",
        wrong: "contents are dropped while a fork is under way",
        test: Model("loom_a_child_has_no_store_without_the_dontneed_before_it"),
    },
    Mutation {
        point: "cow.reuse-ignores-mapcount",
        wrong: "a frame that another space maps is written without a copy",
        test: FORK,
    },
    Mutation {
        point: "cow.flush-skipped",
        wrong: "a CPU goes on reading the frame that another one has copied and written",
        test: Model("loom_a_copy_on_write_against_a_reader"),
    },
    Mutation {
        point: "table.shared-frame-made-writable",
        wrong: "more rights make an entry of a shared frame writable",
        test: FORK,
    },
    Mutation {
        point: "gather.deferral-not-exclusive",
        wrong: "two edits of a space leave frames in their slots at a time",
        test: Unit("tlb::tests::gather"),
    },
    Mutation {
        point: "gather.deferred-not-put",
        wrong: "frames that wait in their slots are left there after the flush",
        test: UNMAP_SHARED_FRAMES,
    },
    Mutation {
        point: "gather.detached-pending-lost",
        wrong: "frames that wait in slots of a detached table are lost",
        test: UNMAP_SHARED_FRAMES,
    },
    Mutation {
        point: "table.others-pending-cleared",
        wrong: "a sweep clears the slot in which another one has left a frame",
        test: Model("loom_two_dontneed_of_frames_that_wait_in_their_slots"),
    },
    Mutation {
        point: "fault.pending-trusted",
        wrong: "a fault installs in a slot that still owns a frame",
        test: Model("loom_a_store_to_a_page_whose_frame_waits_in_its_slot"),
    },
    Mutation { point: "fork.pinned-shared", wrong: "a fork shares a frame that is pinned", test: PIN },
    Mutation {
        point: "fork.pinned-left-writable",
        wrong: "pinned pages are written while a fork copies them",
        test: Model("loom_a_child_has_no_store_to_a_pinned_page_without_those_before_it"),
    },
    Mutation {
        point: "fork.pinned-writable-again",
        wrong: "a load gives the right to write a pinned page back while a fork copies",
        test: PIN,
    },
    Mutation {
        point: "cow.store-to-shared-allowed",
        wrong: "a store to a frame that others have is allowed in place",
        test: Unit("space::tests::fork"),
    },
    Mutation {
        point: "pin.shared-frame-pinned",
        wrong: "a frame is pinned that a write copies",
        test: Model("loom_a_pin_against_a_reuse"),
    },
    Mutation { point: "pin.dirty-not-set", wrong: "a pin to write leaves a page to be discarded", test: PIN },
    Mutation {
        point: "pin.forced-into-shared",
        wrong: "a forced store goes to shared memory that may not be written",
        test: Unit("space::tests::copy"),
    },
    Mutation { point: "pin.limit-ignored", wrong: "more pages are pinned than the limit says", test: PIN },
    Mutation {
        point: "pin.left-discardable",
        wrong: "what a device writes may be discarded",
        test: Unit("space::tests::pin"),
    },
];
