//! Pins without a lock, against what takes the page's frame away, frees it, maps it elsewhere, or shares it.

use super::world::*;
use crate::space::Advice;
use crate::sync::testing::thread;
use crate::table::{LeafBits, walk};
use crate::units::{Access, Level, Rights, Vpn};
use crate::vma::VmaFlags;

/// A page of the mapping that was never touched, in the table of X.
const BESIDE: Vpn = Vpn(X.0 + 1);

/// CPU 1 pins X without a lock, once.
fn fast_beside(
    machine: &'static Tests,
    space: &'static TestSpace,
    access: Access,
) -> thread::JoinHandle<Option<Pins>> {
    let limit = limit();
    thread::spawn(move || {
        machine.run_as(1);
        let reading = space.vm.rcu.read();
        space.try_pin_fast(X.addr(), access, limit, [None], &reading).ok()
    })
}

/// Clears what the hardware has noted in the entry of X.
fn forget_use(space: &TestSpace) {
    let reading = space.vm.rcu.read();
    let found = walk(&space.entries.table, X, Level::Pte, &reading);
    let mut table = found.table.lock().unwrap();
    table.adjust(found.slot, |leaf| {
        let bits = LeafBits::of(leaf);
        Some(LeafBits { accessed: false, dirty: false, ..bits })
    });
}

/// Drops X and gives its frame to another page. Returns whether CPU 1 had pinned it.
fn give_the_frame_away(machine: &'static Tests, space: &'static TestSpace, access: Access) -> bool {
    let pinner = fast_beside(machine, space, access);
    space.advise(X.addr(), PAGE, Advice::DontNeed).unwrap();
    touch(space, BESIDE);
    let pins = pinner.join().unwrap();
    assert_eq!(frame(space, X), None, "what was dropped is there again");
    let is_pinned = pins.is_some();
    if let Some(pins) = pins {
        assert_ne!(pinned(&pins), frame(space, BESIDE), "a frame of another page is pinned");
    }
    is_pinned
}

#[test]
fn loom_a_fast_pin_against_a_frame_that_is_freed_and_used_elsewhere() {
    assert_both(explore_fork(|machine, space| give_the_frame_away(machine, space, Access::Read)));
}

#[test]
fn loom_a_fast_pin_that_marks_its_entry_against_a_frame_that_is_freed() {
    assert_both(explore_fork(|machine, space| {
        forget_use(space);
        give_the_frame_away(machine, space, Access::Write)
    }));
}

#[test]
fn loom_a_fast_pin_against_a_fork() {
    assert_both(explore_fork(|machine, space| {
        drop(fork(space));
        write(machine, space, X, OLD);
        let pinner = fast_beside(machine, space, Access::Read);
        let child = fork(space);
        let pins = pinner.join().unwrap();
        write(machine, space, X, NEW);
        assert_eq!(byte(machine, &child, X), OLD);
        let is_pinned = pins.is_some();
        if let Some(pins) = pins {
            assert_eq!(pinned(&pins), frame(space, X), "the pin is left behind");
            assert_ne!(pinned(&pins), frame(&child, X), "the child has a pinned frame");
        }
        is_pinned
    }));
}

#[test]
fn loom_a_fast_pin_that_marks_its_entry_against_mprotect() {
    assert_both(explore_fork(|machine, space| {
        forget_use(space);
        let pinner = fast_beside(machine, space, Access::Write);
        space.protect(X.addr(), PAGE, VmaFlags::READ).unwrap();
        let is_pinned = pinner.join().unwrap().is_some();
        let leaf = leaf(space, START).unwrap();
        assert!(!leaf.rights.contains(Rights::WRITE), "a right is back that was taken away");
        assert!(!is_pinned || leaf.dirty, "a dirty bit is lost");
        is_pinned
    }));
}
