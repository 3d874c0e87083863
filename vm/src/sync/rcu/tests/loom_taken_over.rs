//! Garbage that a CPU other than its owner frees.

use super::*;

#[test]
fn loom_rcu_orphaned_garbage_is_freed_by_another_cpu_after_the_reader() {
    let seen = explore(2, |seen| {
        let (world, object) = World::new(3);
        let reader = spawn_reader(&world, &object, |world| world.look(&world.rcu.read()));
        let other = spawn_on(2, &world, |world| {
            world.advance(3, full_fence);
            let bin = world.bin();
            world.rcu.free_expired(&world.rcu.bound(&bin));
            bin.0.get()
        });
        world.unlink_and_defer();
        world.rcu.orphan(&world.bin());
        seen.count(reader, other.join().unwrap());
    });
    assert_telling(seen);
}

/// CPU 0 frees its expired object and retires another one; CPU 1 lacks memory: when it has looked everywhere,
/// the first object is freed. Nothing is lost, and nothing freed twice.
#[test]
fn loom_rcu_garbage_is_taken_over_from_an_owner_that_retires_and_frees() {
    let seen = explore(2, |seen| {
        let (world, object) = World::new(2);
        let next = Arc::new(Object { head: RcuHead::new(), value: UnsafeCell::new(1) });
        world.unlink_and_defer();
        world.advance(3, full_fence);
        let taker = thread::spawn({
            let (world, object) = (world.clone(), object.clone());
            move || {
                TestCpu::become_cpu(1);
                let (bin, machine) = (world.bin(), TestMachine::with_cpus(1, 2));
                let memory = world.rcu.bound(&bin);
                world.rcu.take_over(&machine);
                while world
                    .rcu
                    .free_orphans(&memory, || Some(world.rcu.advance.lock().take_orphans(&world.rcu)))
                {
                }
                world.rcu.wait_for_batches();
                // SAFETY: freed, and not written any more: what loom is here to check.
                object.value.with(|value| assert_eq!(unsafe { *value }, GONE));
                drop(object);
                bin.0.get()
            }
        });
        let bin = world.bin();
        world.rcu.free_own(&world.rcu.cpus.get_cpu(), None, &world.rcu.bound(&bin));
        // SAFETY: no other thread has the object; the test frees it at its end.
        unsafe { world.rcu.defer(NonNull::from(&*next).cast(), 0, 1, &bin) };
        let taken = taker.join().unwrap();
        assert_eq!((taken + bin.0.get(), world.rcu.garbage()), (1, 1));
        // The other one waits on its CPU, or among the orphans.
        seen.found.fetch_add(usize::from(world.rcu.orphaned.load(Relaxed) == 1), Relaxed);
        seen.freed.fetch_add(taken, Relaxed);
        world.advance(3, full_fence);
        world.rcu.free_expired(&world.rcu.bound(&bin));
        assert_eq!((taken + bin.0.get(), world.rcu.garbage()), (2, 0));
        drop(next);
    });
    assert_telling(seen);
}

/// CPU 0 retires what CPU 1 may read, and is quiet; CPU 2 lacks memory.
#[test]
fn loom_rcu_garbage_is_taken_over_after_the_reader() {
    let seen = explore(2, |seen| {
        let (world, object) = World::new(3);
        let reader = spawn_reader(&world, &object, |world| world.look(&world.rcu.read()));
        let taker = spawn_on(2, &world, |world| {
            world.advance(3, full_fence);
            let (bin, machine) = (world.bin(), TestMachine::with_cpus(1, 3));
            world.rcu.take_over(&machine);
            world.rcu.free_expired(&world.rcu.bound(&bin));
            bin.0.get()
        });
        world.unlink_and_defer();
        seen.count(reader, taker.join().unwrap());
    });
    assert_telling(seen);
}
