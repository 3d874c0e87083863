//! Pins against forks, and against writes that copy or reuse: a pinned page keeps its frame.

use super::world::*;
use crate::machine::testing::TestCpu;
use crate::space::MemlockLimit;
use crate::sync::testing::thread;
use crate::units::{Access, Vpn};

fn pin(space: &'static TestSpace, page: Vpn, limit: &'static MemlockLimit<TestCpu>) -> Pins {
    space.pin_pages(page.addr(), Access::Read, limit, [None]).unwrap()
}

/// CPU 1 pins X to read.
fn pin_beside(machine: &'static Tests, space: &'static TestSpace) -> thread::JoinHandle<Pins> {
    let limit = limit();
    thread::spawn(move || {
        machine.run_as(1);
        let running = space.activate(None);
        let pins = pin(space, X, limit);
        drop(running);
        pins
    })
}

#[test]
fn loom_a_pin_against_a_fork() {
    assert_both(explore_fork(|machine, space| {
        // loom tells the first stores to a word apart by what was released in between.
        drop(fork(space));
        write(machine, space, X, OLD);
        let before = frame(space, X);
        let pinner = pin_beside(machine, space);
        let child = fork(space);
        let pins = pinner.join().unwrap();
        write(machine, space, X, NEW);
        assert_eq!(pinned(&pins), frame(space, X), "the pin is left behind");
        assert_ne!(pinned(&pins), frame(&child, X), "the child has a pinned frame");
        assert_eq!(byte(machine, &child, X), OLD);
        // Pinned before its page was swept, or after the fork.
        pinned(&pins) == before
    }));
}

#[test]
fn loom_a_pin_against_a_reuse() {
    let [kept, copied] = explore_fork(|machine, space| {
        drop(fork(space));
        let before = frame(space, X);
        let pinner = pin_beside(machine, space);
        write(machine, space, X, NEW);
        let pins = pinner.join().unwrap();
        assert_eq!(pinned(&pins), frame(space, X), "the pin is left behind");
        assert_eq!(byte(machine, space, X), NEW);
        frame(space, X) != before
    });
    assert!(kept > 0 && copied == 0, "nobody else maps the frame");
}

#[test]
fn loom_a_pin_against_the_end_of_a_child() {
    assert_both(explore_fork(|machine, space| {
        let child = fork(space);
        let before = frame(space, X);
        let pinner = pin_beside(machine, space);
        drop(child);
        let pins = pinner.join().unwrap();
        write(machine, space, X, NEW);
        assert_eq!(pinned(&pins), frame(space, X), "the pin is left behind");
        frame(space, X) != before
    }));
}

#[test]
fn loom_a_child_has_no_store_to_a_pinned_page_without_those_before_it() {
    assert_both(explore_fork(|machine, space| {
        let limit = limit();
        let pins = [X, Y].map(|page| pin(space, page, limit));
        let program = |machine, space| {
            store_byte(machine, space, X, NEW);
            store_byte(machine, space, Y, NEW);
        };
        let has_new = fork_beside(machine, space, program, |[x, y]| y == OLD || x == NEW);
        assert_eq!(pins.each_ref().map(|pins| pinned(pins)), [X, Y].map(|page| frame(space, page)));
        has_new
    }));
}
