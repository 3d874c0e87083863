//! The points of locks, ownership, sets of CPUs, boot memory and frames.

use super::Mutation;
use super::Test::{Lab, Model, Unit};

const UNMAP: super::Test = Model("loom_fault_against_unmap_with_a_present_table");
const GROWTH: super::Test = Model("loom_an_allocation_waits_for_the_block_that_a_helper_has_claimed");

/// All of them.
pub const ALL: &[Mutation] = &[
    Mutation {
        point: "cpu-mask.summary-not-set",
        wrong: "a CPU enters a word of a set that readers leave out",
        test: Unit("space::tests::many_cpus"),
    },
    Mutation {
        point: "cpu-mask.last-word-left-out",
        wrong: "the last word of a set is not read",
        test: Unit("space::tests::many_cpus"),
    },
    Mutation {
        point: "handler.refusal-ignored",
        wrong: "a second system takes the handler of the first for its own, and removes it",
        test: Unit("space::tests::start"),
    },
    Mutation {
        point: "context.threads-share-a-number",
        wrong: "two threads are one CPU of a platform that has one",
        test: Unit("machine::testing::defaults"),
    },
    Mutation {
        point: "pin.part-not-rechecked",
        wrong: "a page of the hugetlb pool that was freed and is something else is pinned as a part",
        test: Unit("frame::hugetlb::tests"),
    },
    Mutation {
        point: "map-given.refused-left-mapped",
        wrong: "a refused PFN mapping leaves those that it has mapped",
        test: Unit("space::tests::map::given"),
    },
    Mutation {
        point: "gather.deferral-freed-by-refusal",
        wrong: "an edit that may leave nothing in a slot ends that right of the one that may",
        test: Unit("tlb::tests::gather"),
    },
    Mutation {
        point: "gather.deferral-given-up-early",
        wrong: "an edit puts what another one has left in a slot and not flushed",
        test: Unit("space::edit::tests::deferral"),
    },
    Mutation {
        point: "frame.exclusive-mapped-twice",
        wrong: "an exclusive frame gets a second entry through another reference, and each entry frees it",
        test: Unit("frame::tests"),
    },
    Mutation {
        point: "meta.mapcount-overflows",
        wrong: "a mapcount at its limit is raised",
        test: Unit("frame::tests"),
    },
    Mutation {
        point: "meta.any-frame-mapped-as-objects",
        wrong: "a fault counts a mapping of what was an object's frame before, whatever it is now",
        test: Unit("frame::tests"),
    },
    Mutation {
        point: "meta.object-mapping-counted-relaxed",
        wrong: "a fault maps a frame that its object has lost and another object has now",
        test: Model("loom_a_frame_that_another_object_has_now_is_found_missing"),
    },
    Mutation {
        point: "meta.mapping-removed-relaxed",
        wrong: "the last of several mappings frees what another CPU used through its own before",
        test: Model("loom_two_entries_use_a_frame_before_the_last_of_them_frees_it"),
    },
    Mutation {
        point: "asymmetric.owner-not-awaited",
        wrong: "ownership is revoked while the owner is inside",
        test: Model("loom_asymmetric_locks"),
    },
    Mutation {
        point: "asymmetric.barrier-skipped",
        wrong: "ownership is revoked without a barrier",
        test: Model("loom_asymmetric_locks"),
    },
    Mutation {
        point: "asymmetric.owner-locks-twice",
        wrong: "the owner of a set of locks takes one of them twice",
        test: Unit("sync::asymmetric"),
    },
    Mutation {
        point: "asymmetric.owner-not-rechecked",
        wrong: "the owner does not check that it still is the owner",
        test: Model("loom_asymmetric_locks"),
    },
    Mutation {
        point: "asymmetric.given-back-relaxed",
        wrong: "ownership is released without a release store",
        test: Model("loom_asymmetric_locks"),
    },
    Mutation {
        point: "asymmetric.released-while-held",
        wrong: "an owner releases its ownership while it holds a lock",
        test: Unit("sync::asymmetric::tests"),
    },
    Mutation {
        point: "asymmetric.below-foreign-lock",
        wrong: "a lock is taken by its word below a lock that is not of its set",
        test: Unit("sync::asymmetric::tests"),
    },
    Mutation {
        point: "asymmetric.two-revokers",
        wrong: "two revokers use the same value at once",
        test: Unit("sync::asymmetric::tests"),
    },
    Mutation {
        point: "percpu.foreign-part",
        wrong: "data of no CPU, or of another, is used as this CPU's",
        test: Unit("sync::percpu::tests"),
    },
    Mutation {
        point: "boot.memory-not-claimed",
        wrong: "two systems have the same memory",
        test: Unit("frame::boot::map::tests"),
    },
    Mutation {
        point: "carve.layout-unchecked",
        wrong: "boot memory that is too small or not aligned is used",
        test: Unit("sync::carve::tests"),
    },
    Mutation {
        point: "asymmetric.left-relaxed",
        wrong: "the owner leaves a section without release",
        test: Model("loom_asymmetric_locks"),
    },
    Mutation { point: "spin.taken-relaxed", wrong: "a spin lock is taken without acquire", test: UNMAP },
    Mutation {
        point: "spin.released-relaxed",
        wrong: "a spin lock is released without release",
        test: UNMAP,
    },
    Mutation {
        point: "rcu.read-fence-skipped",
        wrong: "a read section begins without its fence",
        test: Model("loom_rcu_reader_against_retire_and_advance_by_another"),
    },
    Mutation {
        point: "buddy.never-merged",
        wrong: "free buddies are not merged",
        test: Unit("frame::tests::random_allocations"),
    },
    Mutation {
        point: "deferred.claim-not-atomic",
        wrong: "a deferred block is claimed by a load and a store",
        test: Model("loom_helper_and_allocation_share_the_blocks_of_a_section"),
    },
    Mutation {
        point: "alloc.deferred-not-awaited",
        wrong: "an allocation does not wait for blocks that are being initialised",
        test: GROWTH,
    },
    Mutation {
        point: "zone.counted-before-freed",
        wrong: "a zone counts frames as its own before it has them",
        test: GROWTH,
    },
    Mutation {
        point: "deferred.edge-block-deferred",
        wrong: "a block with the start of a region in it is deferred",
        test: Unit("frame::boot::deferred"),
    },
    Mutation {
        point: "deferred.edge-records-not-written",
        wrong: "records of blocks with an edge in them are not written at start",
        test: Unit("frame::boot::deferred"),
    },
    Mutation {
        point: "deferred.unwritten-record-found",
        wrong: "a lookup finds a record that is not written",
        test: Unit("frame::boot::deferred::unwritten_tests"),
    },
    Mutation {
        point: "deferred.written-noted-early",
        wrong: "records are noted as written before they are",
        test: Model("loom_a_record_is_found_once_it_is_written"),
    },
    Mutation {
        point: "deferred.far-cpu-writes",
        wrong: "the caller does not stand back from the records of another node",
        test: Unit("frame::boot::record_writers_tests"),
    },
    Mutation {
        point: "records.any-node",
        wrong: "records are placed in the last region that has enough, of any node",
        test: Unit("frame::boot::record_window_tests"),
    },
    Mutation {
        point: "records.node-may-be-eaten",
        wrong: "the records of a node may take all of its memory",
        test: Unit("frame::boot::record_window_tests::a_node_keeps"),
    },
    Mutation {
        point: "records.hole-deferred",
        wrong: "blocks whose records have no memory are deferred, and cleared",
        test: Unit("frame::boot::record_window_tests"),
    },
    Mutation {
        point: "zone.deferred-not-counted",
        wrong: "the watermark does not count deferred frames",
        test: Unit("frame::boot::deferred"),
    },
    Mutation {
        point: "zone.block-list-not-linked",
        wrong: "a chain of deferred blocks is linked by its head alone",
        test: Unit("frame::boot::deferred"),
    },
    Mutation {
        point: "alloc.searched-after-drain",
        wrong: "the zones are searched after a drain, when other CPUs may have refilled their caches",
        test: Lab("running", "scarce::who_asks_for_no_more_than_there_is_gets_it_whatever_other_cpus_hold"),
    },
    Mutation {
        point: "rwlock.writers-first",
        wrong: "a writer that releases the lock grants it to the next writer though readers wait",
        test: Lab(
            "seeded",
            "fair::a_reader_waits_for_one_writer_and_a_writer_for_one_phase_of_readers_for_each_ahead",
        ),
    },
    Mutation {
        point: "rwlock.passed-without-limit",
        wrong: "writers that come pass the writer that waits longest without end",
        test: Unit("sync::rwlock::tests"),
    },
    Mutation {
        point: "rwlock.woken-stays-asleep",
        wrong: "a writer that is about to sleep does not see that it was woken",
        test: Model("loom_rwlock"),
    },
    Mutation {
        point: "rwlock.opened-after-readers",
        wrong: "a phase of readers ends with a lock that any writer may take",
        test: Lab(
            "seeded",
            "fair::a_reader_waits_for_one_writer_and_a_writer_for_one_phase_of_readers_for_each_ahead",
        ),
    },
    Mutation {
        point: "rwlock.granted-without-acquire",
        wrong: "a writer does not see what all readers of the phase before did",
        test: Model("loom_rwlock"),
    },
    Mutation {
        point: "rcu.grace-of-two",
        wrong: "garbage is free after two epochs",
        test: Model("loom_rcu_reader_against_an_unlinking_that_waits_in_a_store_buffer"),
    },
    Mutation {
        point: "registry.freed-at-once",
        wrong: "a value that is removed is freed while a reader uses it",
        test: Unit("frame::registry::tests"),
    },
    Mutation {
        point: "registry.namesake-removed",
        wrong: "the end of a value takes another one of the same number out, which is held",
        test: Unit("frame::held::tests"),
    },
    Mutation {
        point: "held.revived",
        wrong: "a lookup by number holds a value that ends",
        test: Model("loom_a_value_is_held_or_refused_while_it_ends"),
    },
    Mutation {
        point: "held.put-relaxed",
        wrong: "the last hold ends a value without having seen what was done through the others",
        test: Model("loom_two_holds_go_at_once"),
    },
    Mutation {
        point: "page-slot.node-relaxed",
        wrong: "a node takes the place of what it holds without release",
        test: Model("loom_a_page_of_an_object_is_found_while_its_index_grows"),
    },
    Mutation {
        point: "page-slot.taken-twice",
        wrong: "a frame is taken out of a slot by a load and a store",
        test: Model("loom_a_frame_is_taken_out_of_an_object_once"),
    },
    Mutation {
        point: "object.dead-filled",
        wrong: "an object takes a frame though no page of it is mapped",
        test: Model("loom_a_fault_fills_a_page_of_an_object_that_dies"),
    },
    Mutation {
        point: "rcu.entered-relaxed",
        wrong: "a reader does not see what was unlinked before an epoch that it sees",
        test: Model("loom_rcu_epochs_advance_without_a_barrier_where_all_cpus_are_quiet"),
    },
];
