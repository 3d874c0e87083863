//! A CPU that keeps a space without running it, against flushes: it leaves in the interrupt, and may come
//! back while the flusher takes it out of the mask.

use super::loom_shootdown::{PAGE, World, assert_telling, explore, explore_from, take_away};
use crate::machine::testing::TestCpu;
use crate::machine::{Entry, FlushRange, Leaf};
use crate::units::{Access, Level, Rights};

/// The CPU, which runs the space, stops to run it for a while, as a scheduler has it.
fn pause(world: &World) {
    world.shootdown.enter_lazy(&world.space);
    TestCpu::take_interrupt();
    come_back(world);
}

fn come_back(world: &World) {
    if world.shootdown.resume(&world.space).is_none() {
        world.enter(&world.space);
    }
}

fn visit_with_a_pause(world: &'static World) {
    world.enter(&world.space);
    world.use_page();
    pause(world);
    world.use_page();
    world.leave(&world.space);
}

fn enter_lazily(world: &World) {
    world.enter(&world.space);
    world.use_page();
    world.shootdown.enter_lazy(&world.space);
}

#[test]
fn loom_flush_against_a_cpu_that_goes_lazy_and_comes_back() {
    assert_telling(explore(2, &[take_away, visit_with_a_pause]));
}

/// The flusher takes the CPU out of the mask, where it has not left by itself.
#[test]
fn loom_a_lazy_cpu_that_was_flushed_is_in_no_mask() {
    fn flush_and_end(world: &'static World) {
        world.take_away();
        wait_until_loaded_nowhere(world);
    }
    fn answer_once(world: &'static World) {
        TestCpu::take_interrupt();
        if world.shootdown.resume(&world.space).is_some() {
            world.leave(&world.space);
        }
    }
    explore_from(2, enter_lazily, &[flush_and_end, answer_once]);
}

fn wait_until_loaded_nowhere(world: &World) {
    crate::sync::wait_until::<TestCpu>(|| world.space.is_loaded_nowhere());
}

/// The first flush may make CPU 1 leave; the second one must reach it where it has come back.
#[test]
fn loom_a_cpu_that_comes_back_while_it_is_taken_out_of_the_mask() {
    fn flush_twice(world: &'static World) {
        world.shootdown.flush(
            world.machine,
            &world.space,
            FlushRange::of(crate::units::VpnRange::new(PAGE, PAGE.add(1))),
        );
        world.take_away();
    }
    fn come_back_and_use(world: &'static World) {
        TestCpu::take_interrupt();
        come_back(world);
        world.use_page();
        world.leave(&world.space);
    }
    assert_telling(explore_from(2, enter_lazily, &[flush_twice, come_back_and_use]));
}

/// A walker may follow the root at any time while it is loaded, lazily too.
#[test]
fn loom_a_table_is_used_anew_after_a_lazy_cpu_has_left() {
    fn free_table(world: &'static World) {
        world.machine.set_entry(world.root(), Level::Pmd, PAGE, Entry::Absent);
        world.flush();
        // The table's frame becomes memory with other contents.
        let (pfn, rights) = (world.root(), Rights::READ | Rights::WRITE);
        world.set(Entry::Leaf(Leaf::new(pfn, rights).used(true)));
    }
    fn walk_lazily(world: &'static World) {
        for _ in 0..2 {
            let found = world.machine.translate(PAGE, Access::Write);
            assert!(
                found.is_none_or(|leaf| leaf.pfn != world.root()),
                "a walker follows a table that was freed"
            );
            TestCpu::take_interrupt();
        }
        if world.shootdown.resume(&world.space).is_some() {
            world.leave(&world.space);
        }
    }
    explore_from(3, enter_lazily, &[free_table, walk_lazily]);
}

/// A space that cannot be activated any more ends: its root is used anew once it is loaded nowhere.
#[test]
fn loom_a_space_ends_that_two_cpus_keep_lazily() {
    fn end(world: &'static World) {
        enter_lazily(world);
        world.shootdown.evict_lazy(
            world.machine,
            &world.space,
            crate::units::VpnRange::new(PAGE, PAGE.add(1)),
        );
        assert!(world.space.is_loaded_nowhere(), "a lazy CPU has stayed");
        // The tables' frames become memory with other contents.
        let rights = Rights::READ | Rights::WRITE;
        world.set(Entry::Leaf(Leaf::new(world.root(), rights).used(true)));
    }
    fn walk_lazily(world: &'static World) {
        for _ in 0..2 {
            let found = world.machine.translate(PAGE, Access::Write);
            assert!(
                found.is_none_or(|leaf| leaf.pfn != world.root()),
                "a walker follows a root that was freed"
            );
            TestCpu::take_interrupt();
        }
        // Interrupts are taken while a CPU waits.
        wait_until_loaded_nowhere(world);
    }
    explore_from(2, enter_lazily, &[end, walk_lazily]);
}
