//! Words of a program, read in a handler without a reference, against what frees the frame and uses it anew.

use super::world::*;
use crate::machine::testing::TestCpu;
use crate::space::Advice;
use crate::sync::testing::thread;
use crate::table::NotRead;
use crate::units::Vpn;

/// A page of the mapping that was never touched, in the table of X.
const BESIDE: Vpn = Vpn(X.0 + 1);

/// CPU 1, which runs the space, reads a word of X, answers flushes, and reads it again.
#[test]
fn loom_a_word_against_a_frame_that_is_freed_and_used_elsewhere() {
    assert_both(explore_fork(|machine, space| {
        let before = frame(space, X).unwrap();
        let word = u64::from_ne_bytes([OLD, 0, 0, 0, 0, 0, 0, 0]);
        machine.run_as(1);
        let running = space.activate(None);
        let writer = thread::spawn(move || {
            machine.run_as(0);
            space.advise(X.addr(), PAGE, Advice::DontNeed).unwrap();
            write(machine, space, BESIDE, NEW);
        });
        let read = [(); 2].map(|()| {
            let section = space.vm.read_in_handler();
            let read = space.walker().read_word_in_handler(X.addr(), &section);
            drop(section);
            TestCpu::take_interrupt();
            read
        });
        drop(running);
        writer.join().unwrap();
        machine.run_as(0);
        let is_reused = frame(space, BESIDE) == Some(before);
        for read in read {
            assert!(read == Ok(word) || read == Err(NotRead::NotPresent), "{read:?} was never in the page");
        }
        assert!(is_reused, "the model must see the frame used for something else");
        read[0].is_ok()
    }));
}

/// The same while the tables go too.
#[test]
fn loom_a_word_against_unmap() {
    assert_both(explore_fork(|machine, space| {
        let word = u64::from_ne_bytes([OLD, 0, 0, 0, 0, 0, 0, 0]);
        let handler = thread::spawn(move || {
            machine.run_as(1);
            let running = space.activate(None);
            let section = space.vm.read_in_handler();
            let read = space.walker().read_word_in_handler(Y.addr(), &section);
            drop(section);
            drop(running);
            read
        });
        unmap(space, START, TABLE + 1);
        map(space, X, 1);
        write(machine, space, X, NEW);
        let read = handler.join().unwrap();
        assert!(read == Ok(word) || read == Err(NotRead::NotPresent), "{read:?} was never in the page");
        read.is_ok()
    }));
}
