//! The points of faults, of the calls on a space, of tables and of flushes; others are in the lists beside.

use super::Mutation;
use super::Test::{Lab, Model, Unit};

const MAP: super::Test = Unit("space::tests::map::base");
const PROTECT: super::Test = Unit("space::tests::protect::base");
const MBIND: super::Test = Unit("space::tests::mbind::base");
const PAIRS: super::Test =
    Lab("seeded", "pairs::every_pair_of_operations_ends_as_some_order_of_them_would_on_x86");
const RANDOM: super::Test = Lab("modelled", "library::speculative_faults_on_x86_agree_with_the_model");
const LIMITS: super::Test =
    Lab("modelled", "library::with_ten_mappings_at_most_the_library_agrees_with_the_model");
const FLUSH: super::Test = Model("loom_flush_against_a_cpu_that_enters_and_leaves");
const UNMAP: super::Test = Model("loom_fault_against_unmap_with_a_present_table");
const HELD: super::Test = Model("loom_fault_that_holds_its_mapping_against_unmap");
const INSTALL: super::Test = Unit("space::fault::tests::install");
const CACHED: super::Test = Model("loom_a_cached_table_against_its_detaching_and_reuse");
const WALK: super::Test = Model("loom_a_table_is_filled_before_a_walk_finds_it");

/// All of them.
pub const ALL: &[Mutation] = &[
    Mutation { point: "gather.flush-skipped", wrong: "an edit ends without its flush", test: RANDOM },
    Mutation {
        point: "shootdown.own-cpu-skipped",
        wrong: "a flush leaves out the CPU that asks for it",
        test: RANDOM,
    },
    Mutation {
        point: "madvise.lazyfree-not-set",
        wrong: "MADV_FREE does not mark the frame",
        test: Unit("space::fault::tests::kinds"),
    },
    Mutation {
        point: "fault.lazyfree-kept",
        wrong: "a write fault leaves the frame to be discarded",
        test: Unit("space::fault::tests::kinds"),
    },
    Mutation {
        point: "unhook.dirty-dropped",
        wrong: "what an entry says of stores goes with it",
        test: Unit("space::fault::tests::kinds"),
    },
    Mutation {
        point: "unhook.accessed-dropped",
        wrong: "what an entry says of loads goes with it",
        test: Unit("table::tests::entries"),
    },
    Mutation { point: "shootdown.wait-skipped", wrong: "a flush does not wait", test: FLUSH },
    Mutation {
        point: "shootdown.enter-fence-skipped",
        wrong: "a CPU enters a space without the fence",
        test: FLUSH,
    },
    Mutation {
        point: "shootdown.entering-relaxed",
        wrong: "a CPU that leaves a space says so without release",
        test: FLUSH,
    },
    Mutation {
        point: "shootdown.lazy-cpu-left-out",
        wrong: "a flush leaves out the CPUs that keep the space lazily",
        test: Model("loom_a_table_is_used_anew_after_a_lazy_cpu_has_left"),
    },
    Mutation {
        point: "shootdown.left-before-root",
        wrong: "a lazy CPU says that it has left before it has loaded another root",
        test: Model("loom_a_table_is_used_anew_after_a_lazy_cpu_has_left"),
    },
    Mutation {
        point: "shootdown.departed-kept",
        wrong: "a CPU that left in an interrupt stays in the mask",
        test: Unit("space::tests::activate"),
    },
    Mutation {
        point: "mailbox.interrupts-not-shared",
        wrong: "a request is sent an interrupt of its own although one is on its way",
        test: Unit("tlb::tests::mailbox"),
    },
    Mutation {
        point: "shootdown.return-ignored",
        wrong: "a CPU that has come back is taken out of the mask",
        test: Model("loom_a_cpu_that_comes_back_while_it_is_taken_out_of_the_mask"),
    },
    Mutation {
        point: "index.version-not-advanced",
        wrong: "a CPU's last hit outlives its replacement",
        test: Model("loom_a_cached_item_against_its_replacement_and_free"),
    },
    Mutation {
        point: "zap.cut-not-noted",
        wrong: "the last table of a CPU's walk outlives its detaching",
        test: CACHED,
    },
    Mutation {
        point: "table.hits-invalidated-early",
        wrong: "last hits are invalidated before the table is unlinked",
        test: CACHED,
    },
    Mutation {
        point: "fault.waits-for-nothing",
        wrong: "a fault that lacks memory for the index of shared memory tries for ever",
        test: Unit("space::fault::tests::backing"),
    },
    Mutation {
        point: "mailbox.gap-ignored",
        wrong: "a CPU that missed requests flushes only the ranges it was told of",
        test: Unit("tlb::tests::mailbox"),
    },
    Mutation { point: "gather.freed-before-flush", wrong: "a gather frees before it flushes", test: UNMAP },
    Mutation {
        point: "gather.pending-uncounted",
        wrong: "flushes under way are not counted",
        test: Model("loom_two_dontneed_of_one_page"),
    },
    Mutation {
        point: "gather.pages-not-noted",
        wrong: "a gather does not flush the pages of what it frees",
        test: Model("loom_a_store_against_dontneed"),
    },
    Mutation {
        point: "protect.flush-skipped",
        wrong: "mprotect takes rights away without a flush",
        test: Model("loom_a_store_against_mprotect"),
    },
    Mutation {
        point: "table.linked-over-another",
        wrong: "a table is linked where another one is",
        test: Unit("table::tests::platform"),
    },
    Mutation { point: "gather.table-lost", wrong: "a table that is freed is lost", test: RANDOM },
    Mutation {
        point: "table.use-not-noted",
        wrong: "a table does not note which parts of it are used",
        test: RANDOM,
    },
    Mutation {
        point: "sweep.frame-lost",
        wrong: "an exclusive frame that a sweep unhooks is lost",
        test: RANDOM,
    },
    Mutation {
        point: "frame.freed-while-referenced",
        wrong: "an exclusive frame that a sweep unhooks is freed whatever references it has",
        test: Unit("space::tests::pin"),
    },
    Mutation { point: "table.frame-lost", wrong: "a frame that is unhooked is lost", test: RANDOM },
    Mutation {
        point: "unmap.wrong-errno",
        wrong: "munmap of an unaligned address has the wrong errno",
        test: RANDOM,
    },
    Mutation {
        point: "fault.entry-not-rechecked",
        wrong: "a fault does not read the entry again under the lock",
        test: PAIRS,
    },
    Mutation {
        point: "fault.mapping-not-rechecked",
        wrong: "a fault does not check whether its mapping is still live",
        test: UNMAP,
    },
    Mutation {
        point: "table.lockable-after-cut",
        wrong: "a detached table can still be locked",
        test: Model("loom_fault_against_a_mapping_taken_away_and_made_again"),
    },
    Mutation {
        point: "vma.stale-not-marked",
        wrong: "mappings that are replaced are not marked stale",
        test: UNMAP,
    },
    Mutation {
        point: "vma.reader-not-counted",
        wrong: "a reader that holds a mapping's record is not counted in it",
        test: HELD,
    },
    Mutation {
        point: "vma.readers-not-awaited",
        wrong: "a writer does not wait for the readers that hold the mappings that it replaces",
        test: HELD,
    },
    Mutation {
        point: "unmap.zapped-before-replaced",
        wrong: "munmap clears entries before it marks and publishes",
        test: PAIRS,
    },
    Mutation {
        point: "map.born-live",
        wrong: "a mapping put over others is live from the start",
        test: PAIRS,
    },
    Mutation { point: "merge.flags-inverted", wrong: "neighbours are not merged", test: Unit("vma::") },
    Mutation {
        point: "merge.identity-not-reused",
        wrong: "a mapping does not reuse a neighbour's identity",
        test: Unit("space::fault::tests::identity"),
    },
    Mutation { point: "protect.write-kept", wrong: "mprotect leaves the right to write", test: RANDOM },
    Mutation { point: "fault.zero-page-writable", wrong: "the zero page may be written", test: RANDOM },
    Mutation {
        point: "fault.zero-page-not-flushed",
        wrong: "the zero page is replaced without a flush",
        test: Model("loom_a_store_to_the_zero_page_against_a_reader"),
    },
    Mutation {
        point: "sweep.child-locked-before-parent",
        wrong: "tables are detached child before parent",
        test: RANDOM,
    },
    Mutation { point: "fault.not-counted", wrong: "faults are not counted", test: RANDOM },
    Mutation {
        point: "gather.overlap-ignored",
        wrong: "an edit does not flush for another whose flush is under way",
        test: Unit("tlb::tests::gather"),
    },
    Mutation {
        point: "fault.policy-ignored",
        wrong: "a fault ignores the policy of its mapping",
        test: MBIND,
    },
    Mutation {
        point: "protect.reserve-skipped",
        wrong: "mprotect of several mappings reserves no memory",
        test: Lab("modelled", "mishap::a_failed_allocation_changes_nothing_where_faults_speculate"),
    },
    Mutation {
        point: "change.first-split-undone",
        wrong: "a change that is refused at its second split undoes the first",
        test: PROTECT,
    },
    Mutation {
        point: "limits.commit-unlimited",
        wrong: "a request for more memory than there is is granted",
        test: MAP,
    },
    Mutation {
        point: "exit.loaded-space-freed",
        wrong: "a space that a CPU has loaded is freed",
        test: Unit("space::tests::activate"),
    },
    Mutation {
        point: "exit.lazy-cpus-kept",
        wrong: "a space ends although CPUs keep its root lazily",
        test: Unit("space::tests::activate"),
    },
    Mutation {
        point: "slab.last-pool-kept",
        wrong: "trimming leaves out the pool that was made last",
        test: Unit("space::tests::spaces"),
    },
    Mutation {
        point: "fault.refusal-remembered",
        wrong: "a fault that raised rights leaves the refusal in this CPU's TLB",
        test: Unit("space::tests::refusal"),
    },
    Mutation {
        point: "mbind.reserve-skipped",
        wrong: "mbind of several mappings reserves no memory",
        test: MBIND,
    },
    Mutation {
        point: "map-shared.count-kept",
        wrong: "a refused mapping of an object leaves its pages counted as mapped",
        test: MAP,
    },
    Mutation {
        point: "limits.split-at-maximum",
        wrong: "a mapping is split though there are as many as there may be",
        test: Unit("space::tests::unmap::base"),
    },
    Mutation {
        point: "limits.change-counts-what-stays",
        wrong: "a change that adds no mapping is refused where there is one too many",
        test: LIMITS,
    },
    Mutation {
        point: "map.split-uncounted",
        wrong: "MAP_FIXED splits a mapping though there are as many as there may be",
        test: LIMITS,
    },
    Mutation {
        point: "protect.wrong-errno",
        wrong: "mprotect beyond what a mapping may be given has the wrong errno",
        test: PROTECT,
    },
    Mutation {
        point: "protect.limit-ignored",
        wrong: "mprotect ignores what a mapping may be given",
        test: PROTECT,
    },
    Mutation { point: "protect.dirty-dropped", wrong: "mprotect drops the dirty bit", test: PROTECT },
    Mutation {
        point: "madvise.locked-dropped",
        wrong: "MADV_DONTNEED drops locked memory",
        test: Unit("space::tests::madvise::base"),
    },
    Mutation {
        point: "fault.dirty-dropped",
        wrong: "a fault that gives a leaf more rights drops the dirty bit",
        test: INSTALL,
    },
    Mutation {
        point: "fault.backing-not-rechecked",
        wrong: "a fault does not look its frame up again under the lock",
        test: INSTALL,
    },
    Mutation {
        point: "table.adjusted-by-store",
        wrong: "an entry is adjusted by a load and a store",
        test: Unit("table::tests::entries"),
    },
    Mutation {
        point: "table.platforms-slots-open",
        wrong: "a tree reaches the platform's slots of its root",
        test: Unit("table::tests::platform"),
    },
    Mutation { point: "table.install-relaxed", wrong: "an entry is installed without release", test: WALK },
    Mutation { point: "table.read-relaxed", wrong: "a walk reads entries without acquire", test: WALK },
];
