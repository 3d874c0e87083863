//! The reverse map: the entries of a frame, beside a walk of all spaces.

use crate::frame::{FrameRef, Priority};
use crate::machine::testing::TestMachine;
use crate::space::tests::world::base::{TestSpace, counts, frame, map, page, store, with_space};
use crate::space::tests::world::rmap::{assert_agrees, found};
use crate::space::tests::world::{PAGE, boot_map, space_of};
use crate::space::{MapRequest, Place, RmapError, RmapFound, Sharing, Spaces, Vm};
use core::cell::{Cell, RefCell};
use core::ops::ControlFlow;
use std::vec::Vec;

#[test]
fn a_frame_leads_to_its_page_in_each_space_that_has_it() {
    with_space(|vm, first| {
        map(&first, 0, 3);
        (0..3).for_each(|nr| store(&first, page(nr), 1));
        let child = first.fork().unwrap();
        let grandchild = child.fork().unwrap();
        store(&child, page(1), 2);
        store(&grandchild, page(2), 3);
        let mut spaces = Vec::from([first, child, grandchild]);
        assert_eq!(assert_agrees(vm, &spaces, 3), 3);
        let key_at =
            |at: usize, nr| vm.memory().meta(frame(&spaces[at], page(nr))).unwrap().anon_key().unwrap();
        assert_eq!(key_at(2, 0), key_at(0, 0), "fork keeps the anon key");
        assert_ne!(key_at(1, 1).node, key_at(0, 1).node, "a copy has the key of where it is made");
        assert_eq!(key_at(1, 1).page, page(1).vpn());
        // The first has ended: its frames are found through its node.
        drop(spaces.remove(0));
        assert_eq!(assert_agrees(vm, &spaces, 3), 2);
        assert_eq!(vm.nr_anon_nodes(), 3);
        drop(spaces);
        assert_eq!(vm.nr_anon_nodes(), 0);
    });
}

#[test]
fn a_visitor_stops_the_walk() {
    with_space(|vm, first| {
        map(&first, 0, 1);
        store(&first, page(0), 1);
        let child = first.fork().unwrap();
        let spaces = [first, child];
        let reference = vm.memory().try_get(frame(&spaces[0], page(0))).unwrap();
        let mut visited = 0;
        let known = |id| spaces.iter().find(|space| space.id() == id);
        let found = vm.rmap_walk(&reference, known, |_| {
            visited += 1;
            ControlFlow::Break(())
        });
        assert_eq!((found, visited), (Ok(RmapFound::Stopped), 1));
        drop(reference);
    });
}

#[test]
fn where_there_is_no_answer_the_walk_says_why() {
    with_space(|vm, space| {
        let memory = vm.memory();
        map(&space, 0, 2);
        store(&space, page(0), 1);
        let answer =
            |frame: &FrameRef<'_, TestMachine>, spaces: &[&TestSpace<'_>]| found(vm, frame, spaces).0;
        let reference = memory.try_get(frame(&space, page(0))).unwrap();
        assert_eq!(answer(&reference, &[]), Err(RmapError::SpaceMissing));
        // A reference alone, of a frame that was given to a gather.
        space.unmap(page(0), PAGE).unwrap();
        assert_eq!(answer(&reference, &[&space]), Ok(RmapFound::All(0)));
        let Ok(mapped) = reference.map() else { panic!("it is the only reference") };
        let reference = memory.try_get(mapped.pfn()).unwrap();
        assert_eq!(answer(&reference, &[&space]), Err(RmapError::NoAnonKey), "the gather has linked it");
        drop((reference, mapped));
        // Mapped by what is no page of a space, though it was one.
        store(&space, page(1), 1);
        drop(space.fork().unwrap());
        let reference = memory.try_get(frame(&space, page(1))).unwrap();
        space.unmap(page(1), PAGE).unwrap();
        let Ok(mapped) = reference.map() else { panic!("it is the only reference") };
        let reference = memory.try_get(mapped.pfn()).unwrap();
        assert_eq!(answer(&reference, &[&space]), Err(RmapError::Unsettled));
        drop((reference, mapped));
        let mapped = memory.alloc_zeroed(Priority::Normal).unwrap().into_mapped();
        let reference = memory.try_get(mapped.pfn()).unwrap();
        assert_eq!(answer(&reference, &[&space]), Err(RmapError::NoAnonKey));
        drop((reference, mapped));
        let place = Place::Fixed(page(5));
        let request = MapRequest { place, sharing: Sharing::Shared, ..MapRequest::anonymous(PAGE) };
        space.map(&request).unwrap();
        store(&space, page(5), 1);
        let reference = memory.try_get(frame(&space, page(5))).unwrap();
        assert_eq!(answer(&reference, &[&space]), Ok(RmapFound::All(1)), "of an object");
        assert_eq!(answer(&reference, &[]), Err(RmapError::SpaceMissing));
        drop(reference);
    });
}

#[test]
#[should_panic = "a frame of another memory"]
fn a_frame_of_another_system_is_refused() {
    let machines = [TestMachine::new(512), TestMachine::new(512)];
    let [vm, other] = machines.each_ref().map(|machine| Vm::new(machine, boot_map(machine)).unwrap());
    let space = space_of(&vm);
    map(&space, 0, 1);
    store(&space, page(0), 1);
    let reference = vm.memory().try_get(frame(&space, page(0))).unwrap();
    let _ = other.rmap_walk(&reference, |_| None::<&TestSpace<'_>>, |_| ControlFlow::Continue(()));
}

/// A space of another system that has the number, and its page the number of the frame.
#[test]
fn a_space_of_another_system_is_not_looked_at() {
    let machines = [TestMachine::new(512), TestMachine::new(512)];
    let [vm, other] = machines.each_ref().map(|machine| Vm::new(machine, boot_map(machine)).unwrap());
    let [space, twin] = [&vm, &other].map(space_of);
    for space in [&space, &twin] {
        map(space, 0, 1);
        store(space, page(0), 1);
    }
    assert_eq!(space.id(), twin.id());
    assert_eq!(frame(&space, page(0)), frame(&twin, page(0)));
    let reference = vm.memory().try_get(frame(&space, page(0))).unwrap();
    let answer = vm.rmap_walk(&reference, |_| Some(&twin), |_| panic!("an entry of another system"));
    assert_eq!(answer, Err(RmapError::SpaceMissing));
    drop(reference);
}

/// What keeps a space, and says another one when it is asked again.
struct TwoFaced<'a, 'v>(&'a TestSpace<'v>, &'a TestSpace<'v>, Cell<u32>);

impl<'v> core::ops::Deref for TwoFaced<'_, 'v> {
    type Target = TestSpace<'v>;
    fn deref(&self) -> &TestSpace<'v> {
        if self.2.replace(self.2.get() + 1) == 0 { self.0 } else { self.1 }
    }
}

#[test]
fn what_keeps_a_space_is_asked_for_it_once() {
    let machines = [TestMachine::new(512), TestMachine::new(512)];
    let [vm, other] = machines.each_ref().map(|machine| Vm::new(machine, boot_map(machine)).unwrap());
    let [space, twin] = [&vm, &other].map(space_of);
    for space in [&space, &twin] {
        map(space, 0, 1);
        store(space, page(0), 1);
    }
    let reference = vm.memory().try_get(frame(&space, page(0))).unwrap();
    let mut seen = Vec::new();
    let hold = |_| Some(TwoFaced(&space, &twin, Cell::new(0)));
    let answer = vm.rmap_walk(&reference, hold, |entry| {
        seen.push(core::ptr::from_ref(entry.space()));
        ControlFlow::Continue(())
    });
    assert_eq!((answer, seen), (Ok(RmapFound::All(1)), [core::ptr::from_ref(&space)].to_vec()));
    drop(reference);
}

/// The first space is unmapped after it was visited: the walk begins again.
#[test]
fn a_walk_that_something_was_beside_begins_again() {
    with_space(|vm, first| {
        map(&first, 0, 1);
        store(&first, page(0), 1);
        let child = first.fork().unwrap();
        let reference = vm.memory().try_get(frame(&first, page(0))).unwrap();
        let (is_unmapped, mut seen) = (Cell::new(false), Vec::new());
        let known = |id| {
            if id == child.id() && !is_unmapped.replace(true) {
                first.unmap(page(0), PAGE).unwrap();
            }
            [&first, &child].into_iter().find(|space| space.id() == id)
        };
        let answer = vm.rmap_walk(&reference, known, |entry| {
            seen.push((entry.walk(), entry.space().id()));
            ControlFlow::Continue(())
        });
        assert_eq!(answer, Ok(RmapFound::All(1)));
        assert_eq!(seen, [(0, first.id()), (0, child.id()), (1, child.id())]);
        drop(reference);
    });
}

/// Spaces that end and forks beside a walk, in the middle of it: also of the space that it has come to.
#[test]
fn forks_and_ends_beside_a_walk_are_gone_along_with() {
    let machine = TestMachine::new(1500);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let spaces = Spaces::new(&vm).unwrap();
    let before = counts(&vm).allocated;
    let first = spaces.insert(space_of(&vm)).unwrap();
    map(&first, 0, 1);
    store(&first, page(0), 1);
    let children =
        |count: usize| (0..count).map(|_| spaces.insert(first.fork().unwrap()).unwrap()).collect::<Vec<_>>();
    let kept = RefCell::new(children(9));
    let reference = vm.memory().try_get(frame(&first, page(0))).unwrap();
    let mut visited = 0;
    // Those that end are ahead of the walk, and where it is; those that begin are appended.
    let known = |id| {
        let held = spaces.hold(id);
        let mut kept = kept.borrow_mut();
        match kept.iter().position(|space| space.id() == id) {
            Some(3) if kept.len() == 9 => kept.extend(children(2)),
            Some(5) if kept.len() == 11 => drop(kept.drain(4..8)),
            _ => {}
        }
        held
    };
    let answer = vm.rmap_walk(&reference, known, |_| {
        visited += 1;
        ControlFlow::Continue(())
    });
    let due = 1 + kept.borrow().len() as u32;
    assert_eq!(answer, Ok(RmapFound::All(due)));
    assert!(visited >= due, "{visited} of {due}");
    assert_eq!(spaces.rmap_walk(&reference, |_| ControlFlow::Continue(())), Ok(RmapFound::All(due)));
    drop(reference);
    kept.take();
    drop(first);
    vm.trim();
    assert_eq!((counts(&vm).allocated, vm.nr_anon_nodes()), (before, 0));
}
