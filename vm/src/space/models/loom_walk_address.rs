//! Translations and searches, against what takes the page, its rights, or the tables on the way away.

use super::world::*;
use crate::space::Advice;
use crate::sync::testing::thread;
use crate::table::{LeafBits, NoTranslation, NoteUse, walk};
use crate::units::{Access, Level, Pfn, Rights, VpnRange};
use crate::vma::VmaFlags;

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

/// CPU 1 translates a store to X, and marks the entry. Returns the frame.
fn store_beside(
    machine: &'static Tests,
    space: &'static TestSpace,
) -> thread::JoinHandle<Result<Pfn, NoTranslation>> {
    thread::spawn(move || {
        machine.run_as(1);
        let reading = space.vm.rcu.read();
        space
            .walker()
            .translate_access(X.addr(), Access::Write, NoteUse::AsHardware, &reading)
            .map(|it| it.pfn)
    })
}

#[test]
fn loom_a_translation_that_marks_its_entry_against_dontneed() {
    assert_both(explore_fork(|machine, space| {
        forget_use(space);
        let before = frame(space, X).unwrap();
        let emulator = store_beside(machine, space);
        space.advise(X.addr(), PAGE, Advice::DontNeed).unwrap();
        let led = emulator.join().unwrap();
        assert_eq!(frame(space, X), None, "what was dropped is there again");
        assert!(led.is_err() || led == Ok(before), "{led:?} was never there");
        led.is_ok()
    }));
}

#[test]
fn loom_a_translation_that_marks_its_entry_against_mprotect() {
    assert_both(explore_fork(|machine, space| {
        forget_use(space);
        let emulator = store_beside(machine, space);
        space.protect(X.addr(), PAGE, VmaFlags::READ).unwrap();
        let led = emulator.join().unwrap();
        let leaf = leaf(space, X).unwrap();
        assert!(!leaf.rights.contains(Rights::WRITE), "a right is back that was taken away");
        assert_eq!(leaf.dirty, led.is_ok(), "a dirty bit is lost, or set by nobody");
        led.is_ok()
    }));
}

#[test]
fn loom_a_translation_that_marks_its_entry_against_a_fork() {
    assert_both(explore_fork(|machine, space| {
        forget_use(space);
        let emulator = store_beside(machine, space);
        let child = fork(space);
        let led = emulator.join().unwrap();
        let leaf = leaf(space, X).unwrap();
        assert!(!leaf.rights.contains(Rights::WRITE), "a right is back that was taken away");
        assert_eq!(leaf.dirty, led.is_ok(), "a dirty bit is lost, or set by nobody");
        assert_eq!(frame(space, X), frame(&child, X));
        led.is_ok()
    }));
}

/// CPU 1 walks in a section of a handler, while the tables go and their frames become something else.
#[test]
fn loom_a_search_against_tables_that_are_freed() {
    assert_both(explore_fork(|machine, space| {
        let before = [X, Y].map(|page| frame(space, page).unwrap());
        let walker = thread::spawn(move || {
            machine.run_as(1);
            let section = space.vm.read_in_handler();
            let led = [X, Y]
                .map(|page| space.walker().translate_in_handler(page.addr(), &section).map(|it| it.pfn));
            let page = VpnRange::new(Y, Y.add(1));
            let found = space.walker().find_frame_in_handler(before[1], page, 9, &section).page;
            (led, found)
        });
        unmap(space, START, TABLE + 1);
        space.vm.synchronize();
        // The tables are free: their frames are user memory now, full of bits.
        map(space, Y, 2);
        for page in [Y, Y.add(1)] {
            touch(space, page);
            machine.write(frame(space, page).unwrap(), 0, &[0xff; 4096]);
        }
        let (led, found) = walker.join().unwrap();
        let now = frame(space, Y);
        assert!(led[0].is_err() || led[0] == Ok(before[0]), "{led:?} was never there");
        assert!(led[1].is_err() || led[1] == Ok(before[1]) || led[1].ok() == now, "{led:?} was never there");
        assert!(found.is_none() || found == Some(Y));
        led[0].is_ok()
    }));
}
