//! System V memory: the size of a segment is what it was asked for with.

use super::*;
use crate::forks::{fork, in_process};

const SEGMENT: u64 = 7;

fn get(id: u64, len: u64) -> Event {
    call(Sys::Shmget, [1, len, 0o1600, 0, 0, 0], id as i64)
}

fn attach(id: u64, flags: u64, result: u64) -> Event {
    call(Sys::Shmat, [id, 0, flags, 0, 0, 0], result as i64)
}

fn segment(start: u64, pages: u64) -> Mapping {
    mapping(start, pages, "rw-s", "/SYSV00000001 (deleted)", "rd wr sh mr mw me ms")
}

#[test]
fn a_segment_whose_size_was_asked_for_is_mapped_and_taken_away() {
    let at = TOP - 0x3000;
    let touch = fault(at, Access::Write, Cause::Absent);
    let events = vec![get(SEGMENT, 0x1800), attach(SEGMENT, 0, at), touch.clone()];
    let mut kept = events.clone();
    kept.push(exit(vec![segment(at, 2)]));
    let report = check(kept);
    assert!(report.differences.is_empty(), "{}", report.text());
    assert_eq!((report.places.agreed, report.places.of, report.maps.agreed), (1, 1, 1));
    let mut gone = events;
    gone.extend([call(Sys::Shmdt, [at, 0, 0, 0, 0, 0], 0), exit(vec![])]);
    let report = check(gone);
    assert!(report.differences.is_empty(), "{}", report.text());
}

#[test]
fn the_child_of_a_fork_has_the_segment_and_may_detach_it() {
    let at = TOP - 0x2000;
    let report = check(vec![
        get(SEGMENT, 0x1000),
        attach(SEGMENT, 0, at),
        fork(PID, 11),
        in_process(11, fault(at, Access::Write, Cause::Absent)),
        in_process(11, call(Sys::Shmdt, [at, 0, 0, 0, 0, 0], 0)),
        in_process(11, exit(vec![])),
        fault(at, Access::Read, Cause::Absent),
        exit(vec![segment(at, 1)]),
    ]);
    assert!(report.differences.is_empty(), "{}", report.text());
}

#[test]
fn a_segment_of_unknown_size_ends_the_replay_of_its_process() {
    let touch = fault(STACK, Access::Write, Cause::Absent);
    let report = check(vec![get(SEGMENT, 0x1000), attach(SEGMENT + 1, 0, TOP - 0x2000), touch]);
    assert_eq!((report.left_out.events_after_untold, report.events), (1, 2));
}
