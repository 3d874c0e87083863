//! CPUs that poll: advances with a barrier, and without one where all CPUs are quiet.

use super::*;

/// CPU 0 retires, polls and frees; CPU 1 reads and polls, `times` times each. An advance has its barrier
/// unless both CPUs have polled in its epoch.
fn two_cpus_that_poll(barrier_all: fn(), times: [usize; 2]) -> &'static Seen {
    explore(3, move |seen| {
        let (world, object) = World::new(2);
        let reader = spawn_reader(&world, &object, move |world| {
            let mut found = false;
            for _ in 0..times[1] {
                found |= world.look(&world.rcu.read());
                world.poll(barrier_all);
            }
            found
        });
        world.unlink_and_defer();
        for _ in 0..times[0] {
            world.poll(barrier_all);
        }
        seen.count(reader, world.free_own(None));
    })
}

#[test]
fn loom_rcu_two_cpus_that_poll_with_a_barrier_where_one_has_not() {
    assert_telling(two_cpus_that_poll(full_fence, [3, 1]));
    assert_telling(two_cpus_that_poll(full_fence, [2, 2]));
}

/// Advances without a barrier: the light fences order nothing, so all depends on what the CPUs say. The
/// reader looks once, in one of three sections: loom shows no thread again, after a yield, an old value that
/// it has seen.
fn quiet_cpus_alone(section_of_look: usize, early: u64) -> &'static Seen {
    explore(3, move |seen| {
        let (world, object) = World::new(2);
        let reader = spawn_reader(&world, &object, move |world| {
            let mut found = false;
            with_bare_light_fences(|| {
                for round in 0..3 {
                    let section = world.rcu.read();
                    found |= round == section_of_look && world.look(&section);
                    drop(section);
                    world.rcu.note_quiet();
                    if round > 0 {
                        TestCpu::relax();
                    }
                }
            });
            found
        });
        let mut freed = 0;
        with_bare_light_fences(|| {
            world.unlink_and_defer();
            // Of what kind the first of the three is does not matter.
            world.advance(1, || {});
            for _ in 0..3 {
                world.rcu.note_quiet();
                world.advance_if_quiet();
                freed += world.free_own(Some(world.rcu.epoch.load(Acquire) + early));
                TestCpu::relax();
            }
        });
        seen.count(reader, freed);
    })
}

#[test]
fn loom_rcu_epochs_advance_without_a_barrier_where_all_cpus_are_quiet() {
    (0..2).for_each(|section| assert_telling(quiet_cpus_alone(section, 0)));
    // What is freed meanwhile may not be found any more.
    assert!(quiet_cpus_alone(2, 0).freed.load(Relaxed) > 0);
}

#[test]
#[should_panic = "Causality violation: Concurrent read and write"]
fn loom_rcu_quiet_cpus_with_a_grace_period_of_one_epoch_fails() {
    quiet_cpus_alone(1, 2);
}
