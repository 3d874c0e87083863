//! Every event of a trace is replayed, or left out for a reason that is counted.

use super::*;
use crate::forks::{fork, in_process};

fn touch() -> Event {
    fault(STACK, Access::Write, Cause::Absent)
}

#[test]
fn the_children_of_a_process_that_ends_untold_are_accounted_for() {
    let exec = at(12, Kind::Exec(Started { image: Arc::new(at_exec()) }));
    let events = vec![
        touch(),
        call(Sys::Shmat, [1, 0, 0, 0, 0, 0], TOP as i64),
        touch(),
        fork(PID, 11),
        in_process(11, touch()),
        fork(11, 12),
        in_process(12, touch()),
        exec,
        in_process(12, touch()),
    ];
    let report = check(events);
    let left = report.left_out;
    assert_eq!((left.events_after_untold, left.forked_events, left.events_of_strangers), (2, 3, 0));
    assert_eq!((left.forked_processes, report.lives.len()), (1, 2), "the one that called exec is replayed");
    assert_eq!((report.events, report.performed), (4, 2));
}

#[test]
fn events_of_a_process_that_nothing_leads_to_are_counted() {
    let report = check(vec![touch(), in_process(77, touch()), fork(77, 78), in_process(78, touch())]);
    assert_eq!((report.left_out.events_of_strangers, report.left_out.forked_events), (2, 1));
    let text = report.text();
    assert!(text.contains("replayed 25.00 % of 4 events"), "{text}");
}

#[test]
fn a_share_is_rounded_down_so_that_all_is_all() {
    let text = check(vec![touch(), exit(vec![])]).text();
    assert!(text.lines().nth(1).unwrap().starts_with("replayed 100.00 % of 2 events"), "{text}");
}

#[test]
fn a_number_that_is_used_again_is_that_of_the_new_process() {
    let end = at(11, Kind::Exit(ProcessExit { status: 0, image: None }));
    let borrowed = at(PID, Kind::Task(NewTask { tid: 11, flags: NewTask::VM | NewTask::VFORK }));
    let report = check(vec![borrowed, in_process(11, touch()), end, fork(PID, 11), in_process(11, touch())]);
    assert_eq!((report.lives.len(), report.performed, report.left_out.events()), (2, 2, 0));
    assert_eq!((report.lives[1].pid, report.lives[1].forked_from), (11, Some(PID)));
}

#[test]
fn every_event_of_the_shipped_traces_is_accounted_for() {
    for name in ["python.trace", "sqlite.trace", "churn.trace", "fork.trace"] {
        let report = replayed(&shipped(name), Path::Speculative);
        assert_eq!(report.left_out.events(), 0, "{name}");
    }
}

#[test]
fn a_program_has_the_name_that_it_was_called_by() {
    let report = check(vec![exit(vec![])]);
    assert_eq!(report.lives[0].program, "x");
}

#[test]
fn huge_pages_are_noticed() {
    let at = TOP - (16 << 20);
    let mut rest = private(at, 2048);
    rest.flags += " hg";
    rest.rss_kib = 8 << 10;
    let events = vec![
        anonymous(2048, at),
        call(Sys::Madvise, [at, 8 << 20, 14, 0, 0, 0], 0),
        fault(at, Access::Write, Cause::Absent),
        fault(at + (2 << 20), Access::Write, Cause::Absent),
        exit(vec![rest]),
    ];
    let report = check(events);
    let huge = &report.huge;
    assert_eq!((huge.advised_calls, huge.advised_pages, huge.faults_in_advised), (1, 2048, 2));
    assert_eq!(huge.resident_without_fault, 2046);
    assert!(report.text().contains("MADV_HUGEPAGE on 2 048 pages, where Linux took 2 faults"));
    assert!(!check(vec![exit(vec![])]).text().contains("huge"));
}

#[test]
fn shared_memory_that_was_dropped_faults_again_as_absent() {
    let at = TOP - 0x3000;
    let shared = call(Sys::Mmap, [0, 0x2000, 3, 0x21, u64::MAX, 0], at as i64);
    let events = vec![
        shared,
        fault(at, Access::Write, Cause::Absent),
        call(Sys::Madvise, [at, 0x2000, 4, 0, 0, 0], 0),
        fault(at, Access::Write, Cause::Absent),
        exit(vec![mapping(at, 2, "rw-s", "/dev/zero (deleted)", "rd wr sh mr mw me ms")]),
    ];
    let report = check(events);
    assert!(report.differences.is_empty(), "{}", report.text());
    assert_eq!(report.faulted, 2);
}
