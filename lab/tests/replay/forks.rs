//! Programs that fork: each process has its memory, and what it writes is its own.

use super::*;

const CHILD: u32 = 11;
const AT: u64 = TOP - 0x3000;

/// An event in another process.
pub fn in_process(pid: u32, event: Event) -> Event {
    Event { pid, tid: pid, ..event }
}

/// `parent` forks `child`.
pub fn fork(parent: u32, child: u32) -> Event {
    at(parent, Kind::Task(NewTask { tid: child, flags: 17 }))
}

fn write(pid: u32, address: u64, cause: Cause) -> Event {
    in_process(pid, fault(address, Access::Write, cause))
}

fn read(pid: u32, address: u64, cause: Cause) -> Event {
    in_process(pid, fault(address, Access::Read, cause))
}

fn exit_of(pid: u32, more: Vec<Mapping>) -> Event {
    in_process(pid, exit(more))
}

#[test]
fn a_page_is_copied_where_both_have_it_and_reused_where_the_other_is_gone() {
    let report = check(vec![
        anonymous(2, AT),
        write(PID, AT, Cause::Absent),
        write(PID, AT + 0x1000, Cause::Absent),
        fork(PID, CHILD),
        write(CHILD, AT, Cause::Protection),
        exit_of(CHILD, vec![private(AT, 2)]),
        write(PID, AT, Cause::Protection),
        write(PID, AT + 0x1000, Cause::Protection),
        exit(vec![private(AT, 2)]),
    ]);
    assert!(report.differences.is_empty(), "{}", report.text());
    assert_eq!((report.forks, report.frames_zeroed), (1, 2));
    assert_eq!((report.frames_copied, report.frames_reused), (1, 2));
    assert_eq!((report.maps.agreed, report.maps.of), (2, 2));
    assert!(report.text().contains("fork of 10"), "{}", report.text());
}

#[test]
fn the_parent_copies_too_while_the_child_lives() {
    let report = check(vec![
        anonymous(2, AT),
        write(PID, AT, Cause::Absent),
        fork(PID, CHILD),
        write(PID, AT, Cause::Protection),
        write(CHILD, AT, Cause::Protection),
        exit_of(CHILD, vec![private(AT, 2)]),
        exit(vec![private(AT, 2)]),
    ]);
    assert!(report.differences.is_empty(), "{}", report.text());
    assert_eq!((report.frames_copied, report.frames_reused), (1, 1));
}

#[test]
fn a_recording_without_copies_on_write_is_seen_to_differ() {
    let events = |cause| {
        let page = write(PID, AT, Cause::Absent);
        vec![anonymous(2, AT), page, fork(PID, CHILD), write(CHILD, AT, cause)]
    };
    assert_eq!(check(events(Cause::Protection)).unexplained, 0);
    assert_eq!(check(events(Cause::Absent)).count_of(DifferenceKind::Cause), 1);
    let mut twice = events(Cause::Protection);
    twice.push(write(CHILD, AT, Cause::Protection));
    assert_eq!(check(twice).count_of(DifferenceKind::NoFault), 1, "a copy is made once");
    let unforked = vec![anonymous(2, AT), write(PID, AT, Cause::Absent), write(PID, AT, Cause::Protection)];
    assert_eq!(check(unforked).count_of(DifferenceKind::NoFault), 1);
}

#[test]
fn what_one_process_maps_and_unmaps_the_other_does_not_see() {
    let below = AT - 0x2000;
    let report = check(vec![
        anonymous(2, AT),
        write(PID, AT, Cause::Absent),
        fork(PID, CHILD),
        in_process(CHILD, anonymous(2, below)),
        write(CHILD, below, Cause::Absent),
        in_process(CHILD, call(Sys::Munmap, [AT, 0x2000, 0, 0, 0, 0], 0)),
        anonymous(2, below),
        write(PID, below, Cause::Absent),
        write(PID, AT + 0x1000, Cause::Absent),
        exit_of(CHILD, vec![private(below, 2)]),
        exit(vec![private(below, 2), private(AT, 2)]),
    ]);
    // Copies of the child's belong to an identity of its own: its mappings are joined in another way.
    assert_eq!(report.unexplained, report.count_of(DifferenceKind::Edge), "{}", report.text());
    assert_eq!((report.places.agreed, report.places.of), (3, 3));
    assert_eq!(report.faulted, 4);
}

#[test]
fn forks_of_forks_share_what_none_has_written() {
    let [grandchild, other] = [12, 13];
    let report = check(vec![
        anonymous(2, AT),
        write(PID, AT, Cause::Absent),
        fork(PID, CHILD),
        fork(CHILD, grandchild),
        exit_of(CHILD, vec![private(AT, 2)]),
        fork(grandchild, other),
        write(grandchild, AT, Cause::Protection),
        write(PID, AT, Cause::Protection),
        write(other, AT, Cause::Protection),
        exit_of(grandchild, vec![private(AT, 2)]),
        exit_of(other, vec![private(AT, 2)]),
        exit(vec![private(AT, 2)]),
    ]);
    assert!(report.differences.is_empty(), "{}", report.text());
    assert_eq!((report.forks, report.frames_copied, report.frames_reused), (3, 2, 1));
    assert_eq!((report.lives.len(), report.maps.of), (4, 4));
}

#[test]
fn a_child_that_calls_exec_leaves_the_parents_frames_to_the_parent() {
    let exec = at(CHILD, Kind::Exec(Started { image: Arc::new(at_exec()) }));
    let early = in_process(CHILD, fault(STACK, Access::Write, Cause::Absent));
    let Kind::Fault(kernel) = early.kind else { unreachable!() };
    let early = Event { kind: Kind::Fault(Fault { mode: Mode::Kernel, ..kernel }), ..early };
    let report = check(vec![
        anonymous(2, AT),
        write(PID, AT, Cause::Absent),
        fork(PID, CHILD),
        read(CHILD, TEXT, Cause::Absent),
        early,
        exec,
        write(CHILD, STACK - 0x1000, Cause::Absent),
        exit_of(CHILD, vec![]),
        write(PID, AT, Cause::Protection),
        exit(vec![private(AT, 2)]),
    ]);
    assert!(report.differences.is_empty(), "{}", report.text());
    assert_eq!((report.forks, report.frames_copied, report.frames_reused), (1, 0, 1));
    let froms: Vec<_> = report.lives.iter().map(|life| (life.pid, life.forked_from, life.events)).collect();
    assert_eq!(froms, [(PID, None, 5), (CHILD, Some(PID), 1), (CHILD, None, 4)]);
}

#[test]
fn shared_memory_stays_shared() {
    let shared = call(Sys::Mmap, [0, 0x2000, 3, 0x21, u64::MAX, 0], AT as i64);
    let end = || vec![mapping(AT, 2, "rw-s", "/dev/zero (deleted)", "rd wr sh mr mw me ms")];
    let report = check(vec![
        shared,
        write(PID, AT, Cause::Absent),
        fork(PID, CHILD),
        write(CHILD, AT, Cause::Absent),
        write(CHILD, AT + 0x1000, Cause::Absent),
        write(PID, AT + 0x1000, Cause::Absent),
        exit_of(CHILD, end()),
        exit(end()),
    ]);
    assert!(report.differences.is_empty(), "{}", report.text());
    assert_eq!((report.frames_copied, report.faulted), (0, 4));
}

#[test]
fn a_file_that_was_not_written_faults_again_in_the_child() {
    let report = check(vec![
        read(PID, TEXT, Cause::Absent),
        fork(PID, CHILD),
        read(CHILD, TEXT, Cause::Absent),
        exit_of(CHILD, vec![]),
        exit(vec![]),
    ]);
    assert!(report.differences.is_empty(), "{}", report.text());
}

#[test]
fn a_zero_page_of_memory_that_was_never_written_is_explained_in_the_child_alone() {
    let events = |pid| {
        let page = read(PID, AT, Cause::Absent);
        vec![anonymous(2, AT), page, fork(PID, CHILD), read(pid, AT, Cause::Absent)]
    };
    let child = check(events(CHILD));
    assert_eq!((child.unexplained, child.count_of(DifferenceKind::ForkedZero)), (0, 1), "{}", child.text());
    assert_eq!(check(events(PID)).count_of(DifferenceKind::NoFault), 1);
}

/// A fork whose call lasts from 10 to 30 ns, and whose child is told of at 20.
fn fork_from_10_to_30() -> [Event; 2] {
    let call = Call {
        sys: Sys::Clone,
        args: [17, 0, 0, 0, 0, 0],
        result: Some(i64::from(CHILD)),
        start_ns: 10,
        end_ns: 30,
        file: None,
        inode: None,
    };
    let task = Event { time_ns: 20, ..fork(PID, CHILD) };
    [task, Event { time_ns: 30, ..at(PID, Kind::Call(call)) }]
}

#[test]
fn a_fault_of_another_thread_is_excused_only_while_the_fork_is_under_way() {
    let faulted_at = |time_ns| {
        let [task, forked] = fork_from_10_to_30();
        let other = Event { time_ns, tid: PID + 1, ..write(PID, AT, Cause::Absent) };
        let child = Event { time_ns: 40, ..write(CHILD, AT, Cause::Absent) };
        check(vec![anonymous(2, AT), other, task, forked, child])
    };
    let during = faulted_at(15);
    assert_eq!(
        (during.unexplained, during.count_of(DifferenceKind::DuringFork)),
        (0, 1),
        "{}",
        during.text()
    );
    let before = faulted_at(9);
    assert_eq!((before.unexplained, before.count_of(DifferenceKind::Cause)), (1, 1));
}

#[test]
fn a_fault_that_meets_the_copy_of_a_fork_before_its_event_is_excused_in_the_window_alone() {
    // The page has a frame of this process alone, until a fork takes the right to write it.
    let write_protected_at = |time_ns, tid| {
        let met = Event { time_ns, tid, ..write(PID, AT, Cause::Protection) };
        let first = Event { tid, ..write(PID, AT, Cause::Absent) };
        let [task, forked] = fork_from_10_to_30();
        let mut events = vec![anonymous(2, AT), first, met, task, forked];
        events.sort_by_key(|event| event.time_ns);
        check(events)
    };
    let during = write_protected_at(15, PID + 1);
    assert_eq!(
        (during.unexplained, during.count_of(DifferenceKind::DuringFork)),
        (0, 1),
        "{}",
        during.text()
    );
    let before = write_protected_at(9, PID + 1);
    assert_eq!(
        (before.unexplained, before.count_of(DifferenceKind::NoFault)),
        (1, 1),
        "no fork was under way"
    );
    let own = write_protected_at(15, PID);
    assert_eq!(
        (own.unexplained, own.count_of(DifferenceKind::NoFault)),
        (1, 1),
        "a thread waits for its fork"
    );
    assert!(write_protected_at(21, PID + 1).differences.is_empty(), "the copy is over");
}

#[test]
fn memory_marked_for_it_is_left_out_or_wiped() {
    let (dont_fork, wiped) = (AT, AT - 0x1000);
    let report = check(vec![
        anonymous(2, AT),
        anonymous(1, wiped),
        write(PID, AT, Cause::Absent),
        write(PID, wiped, Cause::Absent),
        call(Sys::Madvise, [dont_fork, 0x2000, 10, 0, 0, 0], 0),
        call(Sys::Madvise, [wiped, 0x1000, 18, 0, 0, 0], 0),
        fork(PID, CHILD),
        write(CHILD, wiped, Cause::Absent),
        exit_of(CHILD, vec![mapping(wiped, 1, "rw-p", "", "rd wr mr mw me ac wf")]),
    ]);
    assert!(report.differences.is_empty(), "{}", report.text());
    assert_eq!((report.frames_copied, report.maps.agreed), (0, 1));
}

#[test]
fn a_page_that_mremap_moved_while_it_was_shared_is_explained() {
    let new = TOP - 0x103000;
    let report = check(vec![
        anonymous(2, AT),
        write(PID, AT, Cause::Absent),
        fork(PID, CHILD),
        in_process(CHILD, call(Sys::Mremap, [AT, 0x2000, 0x100000, 1, 0, 0], new as i64)),
        write(CHILD, new, Cause::Protection),
    ]);
    assert_eq!(
        (report.unexplained, report.count_of(DifferenceKind::ImposedPage)),
        (0, 1),
        "{}",
        report.text()
    );
}

#[test]
fn children_that_live_one_after_the_other_need_no_more_memory_than_one() {
    let pages = 1 << 14;
    let at = TOP - 0x1000 - (pages << 12);
    let mut events = vec![anonymous(pages, at)];
    for child in 11..300 {
        events.extend([
            fork(PID, child),
            in_process(child, call(Sys::Madvise, [at, pages << 12, 23, 0, 0, 0], 0)),
        ]);
        events.push(in_process(child, self::at(child, Kind::Exit(ProcessExit { status: 0, image: None }))));
    }
    // 289 times 64 MiB is more than a replay asks for.
    let replay = program(events);
    assert!(replay.memory_bytes() < 1 << 30, "{}", replay.memory_bytes());
}
