//! fork and copies on write against threads that go on, the real code on the smallest trees.
//!
//! CPU 1 runs the parent and stores through the test machine's MMU, which keeps translations until they are
//! flushed. What the child has when fork returns is what a thread's stores were at one instant, and stays so.

use super::world::*;
use crate::machine::testing::TestCpu;
use crate::space::*;
use crate::sync::testing::thread;
use crate::units::Access;

#[test]
fn loom_a_child_has_no_store_without_those_before_it() {
    assert_both(explore_fork(|machine, space| {
        let program = |machine, space| {
            store_byte(machine, space, X, NEW);
            store_byte(machine, space, Y, NEW);
        };
        fork_beside(machine, space, program, |[x, y]| y == OLD || x == NEW)
    }));
}

#[test]
fn loom_a_store_through_an_old_translation_reaches_the_child_or_waits() {
    assert_both(explore_fork(|machine, space| {
        let program = |machine, space| {
            // Cached from before the fork, or from before the sweep.
            store_byte(machine, space, X, OLD);
            store_byte(machine, space, X, NEW);
            store_byte(machine, space, Y, NEW);
        };
        fork_beside(machine, space, program, |[x, y]| y == OLD || x == NEW)
    }));
}

#[test]
fn loom_a_child_has_no_store_without_the_dontneed_before_it() {
    assert_both(explore_fork(|machine, space| {
        let program = |machine, space: &'static TestSpace| {
            space.advise(X.addr(), PAGE, Advice::DontNeed).unwrap();
            store_byte(machine, space, Y, NEW);
        };
        fork_beside(machine, space, program, |[x, y]| y == OLD || x != OLD)
    }));
}

#[test]
fn loom_a_copy_on_write_against_a_reader() {
    assert_both(explore_fork(|machine, space| {
        let child = fork(space);
        let shared = frame(&child, X);
        let reader = thread::spawn(move || {
            machine.run_as(1);
            let running = space.activate(None);
            let found = machine.translate(X, Access::Read).is_some();
            TestCpu::take_interrupt();
            machine.translate(X, Access::Read);
            drop(running);
            found
        });
        touch(space, X);
        let stale = machine.cached(1, X).is_some_and(|leaf| Some(leaf.pfn) == shared);
        assert!(!stale, "a CPU reads the old frame after another has written");
        let found = reader.join().unwrap();
        assert_eq!(byte(machine, &child, X), OLD);
        assert_eq!(byte(machine, space, X), OLD, "the copy");
        found
    }));
}

#[test]
fn loom_a_reuse_against_a_second_fork() {
    let [kept, copied] = explore_fork(|machine, space| {
        let child = fork(space);
        let before = frame(space, X);
        let writer = store_beside(machine, space);
        let grandchild = fork(&child);
        drop(child);
        assert_eq!(byte(machine, &grandchild, X), OLD);
        writer.join().unwrap();
        assert_eq!((byte(machine, &grandchild, X), byte(machine, space, X)), (OLD, NEW));
        let copied = frame(space, X) != before;
        drop(grandchild);
        copied
    });
    assert!(kept == 0 && copied > 0, "somebody else maps the frame at all times");
}

#[test]
fn loom_a_store_against_the_end_of_the_child() {
    assert_both(explore_fork(|machine, space| {
        let child = fork(space);
        let before = frame(space, X);
        let writer = store_beside(machine, space);
        drop(child);
        writer.join().unwrap();
        assert_eq!(byte(machine, space, X), NEW);
        frame(space, X) != before
    }));
}

#[test]
fn loom_a_read_fault_goes_on_beside_a_fork() {
    assert_both(explore_fork(|machine, space| {
        space.advise(X.addr(), PAGE, Advice::DontNeed).unwrap();
        let reader = thread::spawn(move || {
            machine.run_as(1);
            let running = space.activate(None);
            let outcome = space.fault(Fault { addr: X.addr(), access: Access::Read }).unwrap();
            drop(running);
            outcome
        });
        let child = fork(space);
        let is_present = has_leaf(&child, X);
        let outcome = reader.join().unwrap();
        assert_ne!(outcome, Outcome::FellBack(Fallback::Forking), "a read waits for a fork");
        assert_eq!([X, Y].map(|page| byte(machine, &child, page)), [0, OLD]);
        assert!(has_leaf(&child, X) == is_present, "what the child has changes");
        is_present
    }));
}

/// The child has all that the unmap takes away, or no mapping there.
#[test]
fn loom_a_fork_against_an_unmap_by_the_parent() {
    assert_both(explore_fork(|machine, space| {
        let unmapper = thread::spawn(move || {
            machine.run_as(1);
            let running = space.activate(None);
            machine.translate(X, Access::Read);
            unmap(space, X, 1);
            assert!(!machine.has_cached(1, X), "a CPU has a page cached that is gone");
            drop(running);
        });
        let child = fork(space);
        let is_mapped = child.inspect().is_any_mapped(X.addr(), PAGE);
        let contents = || [X, Y].map(|page| byte(machine, &child, page));
        assert_eq!(contents(), [if is_mapped { OLD } else { 0 }, OLD]);
        unmapper.join().unwrap();
        assert_eq!(contents(), [if is_mapped { OLD } else { 0 }, OLD], "what the child has changes");
        assert!(!has_leaf(space, X), "a leaf is left where nothing is mapped");
        is_mapped
    }));
}

/// All entries of a frame hold one reference together. An entry counts until its flush is over: the last
/// space that maps the frame may then write it, and no CPU reads it through the entry that is gone.
#[test]
fn loom_a_reuse_against_the_late_flush_of_a_zap() {
    assert_both(explore_fork(|machine, space| {
        let child = fork(space);
        let shared = frame(space, X);
        let running = child.activate(None);
        assert!(machine.translate(X, Access::Read).is_some());
        let writer = thread::spawn(move || {
            machine.run_as(1);
            let running = space.activate(None);
            store_byte(machine, space, X, NEW);
            let is_reused = frame(space, X) == shared;
            let is_cached = machine.cached(0, X).is_some_and(|leaf| Some(leaf.pfn) == shared);
            assert!(!is_reused || !is_cached, "a CPU reads what another space has taken for its own");
            drop(running);
            is_reused
        });
        unmap(&child, X, 1);
        let is_reused = writer.join().unwrap();
        drop(running);
        is_reused
    }));
}
