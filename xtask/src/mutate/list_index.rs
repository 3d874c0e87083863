//! The points of the index, RCU, last hits, per-CPU data and the pools: checks without which safe code could
//! break memory safety.

use super::Mutation;
use super::Test::{Model, Unit};

const MISUSE: super::Test = Unit("index::tests::misuse");

/// All of them.
pub const ALL: &[Mutation] = &[
    Mutation {
        point: "rcu.section-not-checked",
        wrong: "a lookup goes ahead under the read guard of another RCU",
        test: MISUSE,
    },
    Mutation {
        point: "rcu.tree-section-not-checked",
        wrong: "a walk goes ahead under the read guard of another RCU",
        test: Unit("table::tests::sweep"),
    },
    Mutation {
        point: "index.memory-not-checked",
        wrong: "an index is edited with the memory of another",
        test: MISUSE,
    },
    Mutation {
        point: "index.two-writers",
        wrong: "a second edit begins before the first has ended",
        test: Unit("a_second_writer_is_a_checked_error"),
    },
    Mutation {
        point: "index.order-not-checked",
        wrong: "new items may be empty or out of order",
        test: MISUSE,
    },
    Mutation {
        point: "rcu.reclaimer-not-checked",
        wrong: "garbage is given to a memory that it is not of",
        test: Unit("garbage_of_one_memory_is_given_to_no_other"),
    },
    Mutation {
        point: "rcu.own-advance-taken-for-anothers",
        wrong: "a CPU leaves out an advance because of its own last one",
        test: Unit("one_advance_serves_all_cpus"),
    },
    Mutation {
        point: "rcu.retirement-not-noted",
        wrong: "a CPU that retires is interrupted by each advance until it polls",
        test: Unit("a_cpu_that_retires_in_an_epoch_is_spared_its_barrier"),
    },
    Mutation {
        point: "rcu.quiet-in-section",
        wrong: "a CPU that retires in a read section counts as one that reads nothing",
        test: Unit("a_cpu_that_retires_in_an_epoch_is_spared_its_barrier"),
    },
    Mutation {
        point: "rcu.move-not-noticed",
        wrong: "every CPU that polls advances the epoch, though another has just done so",
        test: Unit("one_advance_serves_all_cpus"),
    },
    Mutation {
        point: "rcu.full-not-awaited",
        wrong: "a CPU that has the most garbage goes on without waiting for the readers",
        test: Unit("retiring_past_the_most_that_may_wait_waits_for_the_reader"),
    },
    Mutation {
        point: "rcu.tick-passes-own-garbage-by",
        wrong: "a tick leaves old garbage of the CPU that it interrupts",
        test: Unit("a_cpu_that_ticks_keeps_no_garbage_of_that_age"),
    },
    Mutation {
        point: "vm.offline-keeps-garbage",
        wrong: "a CPU that goes offline keeps its garbage",
        test: Unit("a_cpu_that_goes_offline_leaves_its_garbage_to_those_that_tick"),
    },
    Mutation {
        point: "rcu.batch-not-awaited",
        wrong: "a CPU that lacks memory does not wait for what another one frees",
        test: Model("loom_rcu_garbage_is_taken_over_from_an_owner"),
    },
    Mutation {
        point: "rcu.taken-over-too-early",
        wrong: "garbage that is taken over is freed under its reader",
        test: Model("loom_rcu_garbage_is_taken_over_after_the_reader"),
    },
    Mutation {
        point: "vm.garbage-not-reclaimed",
        wrong: "memory is refused while other CPUs' garbage holds it",
        test: Unit("all_memory_is_had_though_garbage_of_a_quiet_cpu_held_it"),
    },
    Mutation {
        point: "numbers.cpu-left-out",
        wrong: "two CPUs give the same numbers",
        test: Unit("no_number_is_given_twice_whichever_cpus_ask"),
    },
    Mutation {
        point: "slab.memory-not-checked",
        wrong: "a pool allocates from another memory",
        test: Unit("a_pool_is_not_used_with_another_memory"),
    },
    Mutation {
        point: "last-hit.kept-for-inner-section",
        wrong: "a handler of interrupts uses a last hit that is half written",
        test: Unit("sync::last_hit::tests"),
    },
    Mutation {
        point: "last-hit.set-in-inner-section",
        wrong: "a handler of interrupts changes a last hit that is being read",
        test: Unit("sync::last_hit::tests"),
    },
    Mutation {
        point: "last-hit.invalidation-lost",
        wrong: "of two invalidations at once one is lost",
        test: Model("loom_two_invalidations_at_once_leave_no_hit_of_before"),
    },
    Mutation {
        point: "percpu.machine-not-checked",
        wrong: "CPUs of one number, of two machines, use one slot",
        test: Unit("sync::percpu::tests"),
    },
    Mutation {
        point: "asymmetric.machine-not-named",
        wrong: "CPUs of one number, of two machines, own one set of locks",
        test: Unit("sync::asymmetric::tests"),
    },
    Mutation {
        point: "asymmetric.released-by-handler",
        wrong: "a handler of interrupts releases locks that the code before it is taking",
        test: Unit("sync::asymmetric::tests"),
    },
];
