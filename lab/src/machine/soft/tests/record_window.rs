//! Record windows of the software machine.

use super::Tiny;
use super::conformance::{config, frames};
use crate::machine::host::Host;
use crate::machine::soft::arena::DIRTY_BYTE;
use crate::machine::soft::{MachineConfig, SoftMachine};
use interleaf::machine::Machine;
use interleaf::units::{CpuId, PAGE_SIZE, Pfn, PfnRange};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

type TestMachine = SoftMachine<Host, Tiny>;

const LEN: usize = 2 * TestMachine::RECORD_WINDOW_ALIGN;

fn byte(window: NonNull<u8>, at: usize) -> u8 {
    assert!(at < LEN);
    // SAFETY: a byte of the window, which is as long.
    unsafe { window.add(at).read_volatile() }
}

/// Puts frames behind the page `page` of the window.
fn map(machine: &TestMachine, window: NonNull<u8>, page: usize, frames: PfnRange) -> bool {
    assert!((page + 1) * PAGE_SIZE <= LEN);
    // SAFETY: a page of the window; nothing uses it, nor the frames.
    unsafe { machine.map_record_window(window.add(page * PAGE_SIZE), frames, &mut || None) }
}

#[test]
fn a_window_shows_the_frames_and_is_taken_down_with_them_back_in_their_place() {
    let mut machine = TestMachine::new(&config()).unwrap();
    let _here = machine.enter(CpuId(0));
    let first = frames().start;
    for round in 0..3u8 {
        machine.bare_memory().fill(frames(), DIRTY_BYTE ^ round);
        let window = machine.reserve_record_window(LEN).unwrap();
        assert!(window.addr().get().is_multiple_of(TestMachine::RECORD_WINDOW_ALIGN));
        assert!((0..LEN).step_by(512).all(|at| byte(window, at) == 0));
        assert!(map(&machine, window, 1, PfnRange::new(first.add(3), first.add(5))));
        assert!(map(&machine, window, 513, PfnRange::new(first, first.add(1))));
        let shown =
            |page: usize| (0..PAGE_SIZE).all(|at| byte(window, page * PAGE_SIZE + at) == 0xA5 ^ round);
        assert_eq!([0, 1, 2, 3, 512, 513, 514].map(shown), [false, true, true, false, false, true, false]);
        let behind = |page: usize| {
            // SAFETY: within the window.
            machine.arena().frame_behind(unsafe { window.add(page * PAGE_SIZE + 7) })
        };
        assert_eq!(
            [0, 1, 2, 3, 513].map(behind),
            [None, Some(first.add(3)), Some(first.add(4)), None, Some(first)]
        );
        // SAFETY: the frame behind the page is the test's.
        unsafe { window.add(PAGE_SIZE).write_bytes(0x11, PAGE_SIZE) };
        // SAFETY: as above.
        unsafe { machine.zero_nontemporal(window.add(2 * PAGE_SIZE), PAGE_SIZE) };
        assert_eq!((byte(window, 2 * PAGE_SIZE), byte(window, 3 * PAGE_SIZE - 1)), (0, 0));
        // By their own addresses the frames are gone.
        let read = |machine: &TestMachine, pfn: Pfn| {
            let mut bytes = [0xEE; 8];
            machine.read(pfn, 64, &mut bytes);
            bytes[0]
        };
        assert_eq!(read(&machine, first.add(3)), 0);
        machine.unclaim_memory();
        let expected = [DIRTY_BYTE ^ round, 0x11, 0];
        assert_eq!([0, 3, 4].map(|frame| read(&machine, first.add(frame))), expected);
    }
}

#[test]
fn what_is_no_memory_or_no_window_is_refused() {
    let machine = TestMachine::new(&config()).unwrap();
    let window = machine.reserve_record_window(LEN).unwrap();
    let end = frames().end;
    let refused =
        |page, frames| catch_unwind(AssertUnwindSafe(|| map(&machine, window, page, frames))).is_err();
    assert!(refused(0, PfnRange::new(end, end.add(1))), "no memory");
    assert!(refused(LEN / PAGE_SIZE - 1, PfnRange::new(frames().start, frames().start.add(2))), "too long");
    let arena = machine.window(frames().start.addr());
    // SAFETY: refused before anything is touched.
    let elsewhere = || unsafe {
        machine.map_record_window(arena, PfnRange::new(frames().start, frames().start.add(1)), &mut || None)
    };
    assert!(catch_unwind(AssertUnwindSafe(elsewhere)).is_err(), "no window");
    assert_eq!(machine.reserve_record_window(usize::MAX), None);
    let without = TestMachine::new(&MachineConfig::small(1, 64)).unwrap().without_record_windows();
    assert_eq!(without.reserve_record_window(LEN), None);
}
