//! A space whose pages a fork shares, and the bytes that both hold.

use super::*;
use crate::machine::Leaf;
use crate::machine::testing::TestCpu;
use crate::sync::testing::thread;
use crate::sync::{forget_value, refill_zeros};
use crate::units::Rights;
use std::boxed::Box;

/// The page that is swept first, and one in the next table.
pub(in crate::space) const X: Vpn = START;
pub(in crate::space) const Y: Vpn = Vpn(START.0 + TABLE);

/// What both CPUs do with the space, on CPU 0 at first. Returns one of two results.
pub(in crate::space) type Body = fn(&'static Tests, &'static TestSpace) -> bool;

/// Runs the body in all executions, with X and Y written in the space before. Returns how often each result
/// was seen.
pub(in crate::space) fn explore_fork(body: Body) -> [usize; 2] {
    let prepared = move |machine: &'static Tests, space: &'static TestSpace| {
        map(space, START, TABLE + 1);
        [X, Y].iter().for_each(|&page| write(machine, space, page, OLD));
        forked_once(machine, space);
        [X, Y].iter().for_each(|&page| touch(space, page));
        refill_zeros();
        body(machine, space)
    };
    explore_space(Size::of(128), VmOptions::default, prepared, |_| ())
}

/// The words of a fork, of a reuse and of CPU 1's MMU are there before there are threads.
pub(in crate::space) fn forked_once(machine: &'static Tests, space: &'static TestSpace) {
    drop(fork(space));
    machine.run_as(1);
    let running = space.activate(None);
    store_byte(machine, space, X, OLD);
    drop(running);
    machine.run_as(0);
}

pub(in crate::space) const OLD: u8 = 1;
pub(in crate::space) const NEW: u8 = 2;

/// A child, at a place where its words stay.
pub(in crate::space) fn fork(space: &TestSpace) -> Box<TestSpace> {
    let child = Box::new(space.fork().unwrap());
    forget_value(&*child);
    child
}

/// Writes a byte of a page of a space that this CPU does not run.
pub(in crate::space) fn write(machine: &Tests, space: &TestSpace, page: Vpn, byte: u8) {
    touch(space, page);
    machine.write(frame(space, page).unwrap(), 0, &[byte]);
}

/// Stores a byte as a program does, with the faults that this takes.
pub(in crate::space) fn store_byte(machine: &Tests, space: &TestSpace, page: Vpn, byte: u8) {
    loop {
        TestCpu::take_interrupt();
        if let Some(leaf) = machine.translate(page, Access::Write) {
            return machine.write(leaf.pfn, 0, &[byte]);
        }
        space.fault(Fault { addr: page.addr(), access: Access::Write }).unwrap();
    }
}

/// The byte of a page that is no table away; 0 where it is absent.
pub(in crate::space) fn byte(machine: &Tests, space: &TestSpace, page: Vpn) -> u8 {
    let mut byte = [0];
    if let Some(pfn) = frame(space, page) {
        machine.read(pfn, 0, &mut byte);
    }
    byte[0]
}

/// Stores [`NEW`] to X on CPU 1, which runs the space.
pub(in crate::space) fn store_beside(
    machine: &'static Tests,
    space: &'static TestSpace,
) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        machine.run_as(1);
        let running = space.activate(None);
        store_byte(machine, space, X, NEW);
        drop(running);
    })
}

/// Forks on CPU 0 while CPU 1 runs `program`. Asserts that the child's contents are allowed by `is_sound` and
/// stay so, and that no CPU can write them. Returns whether the child has the new Y.
pub(in crate::space) fn fork_beside(
    machine: &'static Tests,
    space: &'static TestSpace,
    program: fn(&'static Tests, &'static TestSpace),
    is_sound: fn([u8; 2]) -> bool,
) -> bool {
    let cpu1 = thread::spawn(move || {
        machine.run_as(1);
        let running = space.activate(None);
        program(machine, space);
        drop(running);
    });
    let child = fork(space);
    let contents = || [X, Y].map(|page| byte(machine, &child, page));
    let snapshot = contents();
    assert!(is_sound(snapshot), "the child has {snapshot:?}");
    for page in [X, Y] {
        let shared = frame(&child, page);
        let is_written = |leaf: Leaf| Some(leaf.pfn) == shared && leaf.rights.contains(Rights::WRITE);
        assert!(!machine.cached(1, page).is_some_and(is_written), "a CPU writes what the child maps");
    }
    cpu1.join().unwrap();
    assert_eq!(contents(), snapshot, "what the child has changes");
    snapshot[1] == NEW
}
