//! Walks for the entries of a frame against what changes them: a fork, the end of a space, and a sweep that
//! gives the frame to its gather.

use super::world::*;
use crate::frame::FrameRef;
use crate::machine::testing::with_leaked;
use crate::space::*;
use crate::sync::testing::thread;
use crate::sync::{forget_value, refill_zeros};
use core::ops::ControlFlow;
use std::vec::Vec;

/// Visits an entry; the test asserts that it is one, and that no walk finds a space twice.
fn visitor<'a>(
    pfn: crate::units::Pfn,
    seen: &'a mut Vec<(u32, SpaceId)>,
) -> impl FnMut(&RmapEntry<'_, 'static, Tests>) -> ControlFlow<()> + 'a {
    move |entry| {
        assert_eq!((entry.leaf().pfn, entry.page()), (pfn, X));
        let found = (entry.walk(), entry.space().id());
        assert!(!seen.contains(&found), "one walk finds an entry twice");
        seen.push(found);
        ControlFlow::Continue(())
    }
}

/// Looks for the entries of a frame in the spaces that are known.
fn entries_in(frame: &FrameRef<'_, Tests>, spaces: &[&'static TestSpace]) -> Result<RmapFound, RmapError> {
    let mut seen = Vec::new();
    let known = |id| spaces.iter().copied().find(|space| space.id() == id);
    let found = spaces[0].vm.rmap_walk(frame, known, visitor(frame.pfn(), &mut seen));
    if let Ok(RmapFound::All(number @ 1..)) = found {
        let last = seen.last().map_or(0, |(walk, _)| *walk);
        assert_eq!(seen.iter().filter(|(walk, _)| *walk == last).count(), number as usize);
    }
    found
}

/// The new child is not known to the walk: it has an answer from before the frame is mapped there, or none.
#[test]
fn loom_a_walk_for_entries_against_a_fork() {
    assert_both(explore_fork(|machine, space| {
        // The words of a second fork are there before there are threads.
        drop(fork(space));
        with_leaked(space.fork().unwrap(), |child| {
            forget_value(child);
            let pfn = frame(space, X).unwrap();
            for cpu in [1, 0] {
                machine.run_as(cpu);
                let reference = space.vm.memory().try_get(pfn).unwrap();
                assert_eq!(entries_in(&reference, &[space, child]), Ok(RmapFound::All(2)));
            }
            refill_zeros();
            let walker = thread::spawn(move || {
                machine.run_as(1);
                let reference = space.vm.memory().try_get(pfn).unwrap();
                entries_in(&reference, &[space, child])
            });
            let second = fork(space);
            let found = walker.join().unwrap();
            let is_before = found == Ok(RmapFound::All(2));
            assert!(is_before || found == Err(RmapError::SpaceMissing), "{found:?}");
            assert_eq!(byte(machine, &second, X), OLD);
            drop(second);
            let reference = space.vm.memory().try_get(pfn).unwrap();
            assert_eq!(entries_in(&reference, &[space, child]), Ok(RmapFound::All(2)));
            is_before
        })
    }));
}

/// The walk may be what keeps the space that is about to end, and ends it then.
#[test]
fn loom_a_walk_for_entries_against_the_end_of_a_space() {
    assert_both(explore_system(Size::of(128), VmOptions::default, |machine, vm| {
        with_leaked(Spaces::new(vm).unwrap(), |spaces| {
            let space = new_space(vm);
            let before = warm_all(machine, &space, 2);
            let parent = spaces.insert(space).unwrap();
            map(&parent, START, 1);
            write(machine, &parent, X, OLD);
            let child = spaces.insert(parent.fork().unwrap()).unwrap();
            let (pfn, id) = (frame(&parent, X).unwrap(), child.id());
            let walk = move || {
                let reference = vm.memory().try_get(pfn).unwrap();
                let mut seen = Vec::new();
                spaces.rmap_walk(&reference, visitor(pfn, &mut seen))
            };
            for cpu in [1, 0] {
                machine.run_as(cpu);
                assert_eq!(walk(), Ok(RmapFound::All(2)));
            }
            refill_zeros();
            let walker = thread::spawn(move || {
                machine.run_as(1);
                walk()
            });
            drop(child);
            let found = walker.join().unwrap();
            assert!(spaces.hold(id).is_none(), "a space without handles lives");
            assert_eq!((walk(), vm.nr_anon_nodes()), (Ok(RmapFound::All(1)), 1));
            drop(parent);
            assert_eq!(vm.nr_anon_nodes(), 0);
            vm.trim();
            assert_given_back(vm, before);
            found == Ok(RmapFound::All(2))
        })
    }));
}

/// The gather links the frame through the word that holds its page.
#[test]
fn loom_a_walk_for_entries_against_a_gather_that_links_the_frame() {
    assert_both(explore_fork(|machine, space| {
        let pfn = frame(space, X).unwrap();
        let walker = thread::spawn(move || {
            machine.run_as(1);
            let Some(reference) = space.vm.memory().try_get(pfn) else { return false };
            let found = entries_in(&reference, &[space]);
            let none = [Ok(RmapFound::All(0)), Err(RmapError::NoAnonKey), Err(RmapError::Unsettled)];
            assert!(found == Ok(RmapFound::All(1)) || none.contains(&found), "{found:?}");
            found == Ok(RmapFound::All(1))
        });
        unmap(space, X, 1);
        walker.join().unwrap()
    }));
}
