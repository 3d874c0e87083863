//! Scans of accessed bits, against all that changes an entry: installing, adjusting, replacing, unhooking,
//! and the hardware that marks it.
//!
//! Whatever comes first: nothing comes back that was taken away, no dirty bit is lost, and a page that was
//! used is either counted by the scan or marked afterwards.

use super::world::*;
use crate::machine::Leaf;
use crate::space::Advice;
use crate::sync::testing::thread;
use crate::table::{LeafBits, NoteUse, walk};
use crate::units::{Access, Level, Rights, Vpn, VpnRange};
use crate::vma::VmaFlags;

/// A page of the mapping that was never touched, in the table of X.
const BESIDE: Vpn = Vpn(X.0 + 1);

/// CPU 1 scans the page, once. Says whether it counts as used.
fn scan_beside(machine: &'static Tests, space: &'static TestSpace, page: Vpn) -> thread::JoinHandle<bool> {
    thread::spawn(move || {
        machine.run_as(1);
        let reading = space.vm.rcu.read();
        let range = VpnRange::new(page, page.add(1));
        space.walker().scan_accessed(range, &reading, |_, leaf| assert!(leaf.accessed)).accessed == 1
    })
}

/// The entry of X says that the page was read, and not written.
fn clean(space: &TestSpace) {
    let reading = space.vm.rcu.read();
    let found = walk(&space.entries.table, X, Level::Pte, &reading);
    let mut table = found.table.lock().unwrap();
    table.adjust(found.slot, |leaf| Some(LeafBits { dirty: false, ..LeafBits::of(leaf) }));
}

fn assert_used(leaf: Leaf, is_counted: bool) {
    assert!(leaf.accessed || is_counted, "a use of the page is lost");
}

#[test]
fn loom_a_scan_against_an_unhook() {
    assert_both(explore_fork(|machine, space| {
        let scan = scan_beside(machine, space, X);
        space.advise(X.addr(), PAGE, Advice::DontNeed).unwrap();
        let is_counted = scan.join().unwrap();
        assert_eq!(leaf(space, X), None, "what was dropped is there again");
        is_counted
    }));
}

#[test]
fn loom_a_scan_against_an_unhook_by_exchange() {
    assert_both(explore_fork(|machine, space| {
        clean(space);
        let scan = scan_beside(machine, space, X);
        space.advise(X.addr(), PAGE, Advice::DontNeed).unwrap();
        let is_counted = scan.join().unwrap();
        assert_eq!(leaf(space, X), None, "what was dropped is there again");
        is_counted
    }));
}

#[test]
fn loom_a_scan_against_an_installation() {
    assert_both(explore_fork(|machine, space| {
        let scan = scan_beside(machine, space, BESIDE);
        touch(space, BESIDE);
        let is_counted = scan.join().unwrap();
        let leaf = leaf(space, BESIDE).unwrap();
        assert!(leaf.dirty && leaf.rights.contains(Rights::WRITE), "the leaf is not what was installed");
        assert_used(leaf, is_counted);
        is_counted
    }));
}

#[test]
fn loom_a_scan_against_an_adjustment() {
    let seen = explore_fork(|machine, space| {
        let scan = scan_beside(machine, space, X);
        space.protect(X.addr(), PAGE, VmaFlags::READ).unwrap();
        let is_counted = scan.join().unwrap();
        let leaf = leaf(space, X).unwrap();
        assert!(!leaf.rights.contains(Rights::WRITE), "a right is back that was taken away");
        assert!(leaf.dirty, "a dirty bit is lost");
        assert_used(leaf, is_counted);
        is_counted
    });
    assert!(seen[0] == 0 && seen[1] > 0, "the page was used before both: {seen:?}");
}

/// fork takes the right to write by a plain store, where all bits are set.
#[test]
fn loom_a_scan_against_a_fork() {
    let seen = explore_fork(|machine, space| {
        let scan = scan_beside(machine, space, X);
        let child = fork(space);
        let is_counted = scan.join().unwrap();
        for leaf in [space, &child].map(|space| leaf(space, X).unwrap()) {
            assert!(!leaf.rights.contains(Rights::WRITE), "a right is back that was taken away");
            assert!(leaf.dirty, "a dirty bit is lost");
        }
        assert_used(leaf(space, X).unwrap(), is_counted);
        is_counted
    });
    assert!(seen[0] == 0 && seen[1] > 0, "the page was used before both: {seen:?}");
}

#[test]
fn loom_a_scan_against_a_copy_on_write() {
    assert_both(explore_fork(|machine, space| {
        let child = fork(space);
        let scan = scan_beside(machine, space, X);
        // As a program does: a fault that finds the entry changed says so, and is taken again.
        let running = space.activate(None);
        store_byte(machine, space, X, NEW);
        drop(running);
        let is_counted = scan.join().unwrap();
        let leaf = leaf(space, X).unwrap();
        assert!(leaf.dirty && leaf.rights.contains(Rights::WRITE), "the leaf is not that of the copy");
        assert_eq!((byte(machine, space, X), byte(machine, &child, X)), (NEW, OLD));
        // The old leaf may have been counted, or the new one.
        assert_used(leaf, is_counted);
        is_counted && !leaf.accessed
    }));
}

/// Each use is counted by one of two scans.
#[test]
fn loom_two_scans_of_one_page() {
    assert_both(explore_fork(|machine, space| {
        let scan = scan_beside(machine, space, X);
        let reading = space.vm.rcu.read();
        let mine = space.walker().scan_accessed(VpnRange::new(X, X.add(1)), &reading, |_, _| ()).accessed;
        drop(reading);
        let theirs = scan.join().unwrap();
        assert_eq!(mine + u64::from(theirs), 1, "a use is counted twice, or lost");
        assert!(leaf(space, X).unwrap().dirty, "a dirty bit is lost");
        theirs
    }));
}

/// The hardware's part is that of an emulator, which marks entries as it does.
#[test]
fn loom_a_scan_against_hardware_that_marks_the_entry() {
    let seen = explore_fork(|machine, space| {
        clean(space);
        let scan = scan_beside(machine, space, X);
        let reading = space.vm.rcu.read();
        let stored =
            space.walker().translate_access(X.addr(), Access::Write, NoteUse::AsHardware, &reading).is_ok();
        drop(reading);
        let is_counted = scan.join().unwrap();
        let leaf = leaf(space, X).unwrap();
        assert!(leaf.dirty == stored, "a dirty bit is lost, or set by nobody");
        assert!(is_counted, "the page was used before");
        leaf.accessed
    });
    assert_both(seen);
}
