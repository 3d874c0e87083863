//! Points of the zones: regions, what goes back to them without their lock, and how much may be taken.

use super::Mutation;
use super::Test::{Model, Unit};

/// All of them.
pub const ALL: &[Mutation] = &[
    Mutation {
        point: "zone.hint-not-noted",
        wrong: "no CPU hears that a region has free memory",
        test: Unit("frame::zone::tests::each_cpu_takes_from_regions_of_its_own"),
    },
    Mutation {
        point: "zone.reserved-twice",
        wrong: "two CPUs reserve one region",
        test: Model("loom_one_of_two_cpus_reserves_a_region"),
    },
    Mutation {
        point: "returned.pushed-relaxed",
        wrong: "frames are given back to a region without release",
        test: Model("loom_two_cpus_give_back_to_a_region_that_a_third_party_collects"),
    },
    Mutation {
        point: "returned.taken-by-load-and-store",
        wrong: "what was given back to a region is collected by a load and a store",
        test: Model("loom_two_cpus_give_back_to_a_region_that_a_third_party_collects"),
    },
    Mutation {
        point: "zone.returned-cleared-late",
        wrong: "a hint says that nothing was given back, after what was there before was collected",
        test: Model("loom_what_was_given_back_is_hinted_at_or_collected"),
    },
    Mutation {
        point: "zone.range-not-divided",
        wrong: "a range of several regions is freed to the first",
        test: Unit("frame::zone::region::tests::a_range_is_divided"),
    },
    Mutation {
        point: "zone.list-across-regions",
        wrong: "deferred blocks of several regions are freed to the first",
        test: Unit("frame::zone::tests::deferred_blocks_of_several_regions"),
    },
    Mutation {
        point: "zone.run-not-paid-back",
        wrong: "a run that could not be taken is counted as taken",
        test: Unit("frame::zone::tests::a_run_of_a_gibibyte"),
    },
    Mutation {
        point: "zone.credit-not-collected",
        wrong: "a request is refused while idle regions have credit",
        test: Unit("frame::zone::tests::the_reserve_is_exact"),
    },
    Mutation {
        point: "zone.fragments-not-first",
        wrong: "a CPU splits blocks of 2 MiB while other regions offer fragments",
        test: Unit("frame::zone::fragments::a_cpu_uses_up_the_fragments"),
    },
    Mutation {
        point: "zone.emptiest-first",
        wrong: "a CPU takes frames where most is free, so that no region becomes empty",
        test: Unit("frame::zone::fragments::frames_that_are_replaced_at_random_leave_regions"),
    },
    Mutation {
        point: "zone.others-not-asked",
        wrong: "a block of 2 MiB is split for a smaller one that a region outside of the CPU's part has",
        test: Unit("frame::zone::fragments::a_block_takes_a_fragment_of_other_parts"),
    },
    Mutation {
        point: "buddy.splits-first",
        wrong: "a batch is cut from a block of 2 MiB while there are fragments",
        test: Unit("frame::zone::fragments::a_batch_uses_fragments"),
    },
    Mutation {
        point: "zone.last-search-trusts-hints",
        wrong: "the search after a drain believes hints",
        test: Model("loom_the_last_frame_is_found_while_another_cpu_frees_it"),
    },
];
