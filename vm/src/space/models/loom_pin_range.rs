//! Pins of a range whose pages two tables map, all or none, against what takes a part of it away, or shares
//! it.

use super::world::*;
use crate::frame::PinnedFrame;
use crate::machine::testing::TestCpu;
use crate::space::{MemlockLimit, PinnedPages};
use crate::sync::testing::thread;
use crate::units::{Access, Pfn, Vpn};
use std::boxed::Box;
use std::vec::Vec;

type Slots = [Option<PinnedFrame<'static, Tests>>; 2];
type RangePins = PinnedPages<'static, 'static, Tests, &'static mut Slots>;

/// The page before Y, the last of its table.
const BEFORE: Vpn = Vpn(Y.0 - 1);

/// CPU 1 pins both pages, in a buffer that stays: what a refused call leaves there stays pinned.
fn pin_both_beside(
    machine: &'static Tests,
    space: &'static TestSpace,
    limit: &'static MemlockLimit<TestCpu>,
) -> thread::JoinHandle<Option<RangePins>> {
    let slots: &'static mut Slots = Box::leak(Box::new([None, None]));
    thread::spawn(move || {
        machine.run_as(1);
        space.pin_range(BEFORE.addr(), Access::Write, limit, slots).ok()
    })
}

fn pinned(pins: &RangePins) -> Vec<Option<Pfn>> {
    pins.frames().map(|frame| Some(frame.pfn())).collect()
}

fn frames(space: &TestSpace) -> Vec<Option<Pfn>> {
    [BEFORE, Y].map(|page| frame(space, page)).to_vec()
}

#[test]
fn loom_a_pin_of_a_range_against_munmap_of_a_part() {
    assert_both(explore_fork(|machine, space| {
        touch(space, BEFORE);
        let (limit, before) = (limit(), frames(space));
        let pinner = pin_both_beside(machine, space, limit);
        unmap(space, Y, 1);
        let pins = pinner.join().unwrap();
        assert_eq!(frames(space), [before[0], None], "what stays mapped has kept its frame");
        let is_pinned = pins.is_some();
        if let Some(pins) = pins {
            assert_eq!((pinned(&pins), limit.locked_pages()), (before.clone(), 2));
        }
        assert_eq!(limit.locked_pages(), 0, "pages are charged that are not pinned");
        let meta = space.vm.memory().meta(before[0].unwrap()).unwrap();
        assert_eq!((meta.pincount(), meta.state().refcount()), (0, 1), "a pin is left");
        is_pinned
    }));
}

#[test]
fn loom_a_pin_of_a_range_against_a_fork() {
    assert_both(explore_fork(|machine, space| {
        drop(fork(space));
        [BEFORE, Y].iter().for_each(|&page| write(machine, space, page, OLD));
        let before = frames(space);
        let pinner = pin_both_beside(machine, space, limit());
        let child = fork(space);
        let pins = pinner.join().unwrap().expect("all pages stay mapped");
        [BEFORE, Y].iter().for_each(|&page| write(machine, space, page, NEW));
        assert_eq!(pinned(&pins), frames(space), "a pin is left behind");
        for (page, pfn) in [BEFORE, Y].into_iter().zip(pinned(&pins)) {
            assert_ne!(pfn, frame(&child, page), "the child has a pinned frame");
            assert_eq!(byte(machine, &child, page), OLD);
        }
        pinned(&pins) == before
    }));
}
