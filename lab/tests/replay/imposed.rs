//! Calls that are not built are said to be imposed, and what follows from that is explained; nothing else is.

use super::*;
use interleaf_lab::replay::Way;

fn ways(report: &Report) -> Vec<(Sys, Way)> {
    report.calls.iter().map(|row| (row.call, row.way)).collect()
}

fn mmap_with(flags: u64, pages: u64, result: u64) -> Event {
    call(Sys::Mmap, [0, pages << 12, 3, flags, u64::MAX, 0], result as i64)
}

const DONTNEED: u64 = 4;

#[test]
fn advice_that_locked_memory_refuses_is_imposed() {
    let at = TOP - 0x2000;
    let dropped = |result| call(Sys::Madvise, [at, 0x1000, DONTNEED, 0, 0, 0], result);
    let lock = |sys| call(sys, [at, 0x1000, 0, 0, 0, 0], 0);
    let end = || exit(vec![private(at, 1)]);
    let report = check(vec![anonymous(1, at), lock(Sys::Mlock), dropped(-22), end()]);
    assert_eq!(report.unexplained, 0, "{}", report.text());
    assert!(ways(&report).contains(&(Sys::Madvise, Way::Imposed)));
    assert!(ways(&report).contains(&(Sys::Mlock, Way::Imposed)));
    let unlocked = check(vec![anonymous(1, at), lock(Sys::Mlock), lock(Sys::Munlock), dropped(-22), end()]);
    assert_eq!(unlocked.count_of(DifferenceKind::Answer), 1, "only locked memory refuses");
}

#[test]
fn a_page_that_was_only_read_stays_so_when_mremap_moves_it() {
    let (old, new) = (TOP - 0x3000, TOP - 0x103000);
    let events = vec![
        anonymous(2, old),
        fault(old, Access::Read, Cause::Absent),
        call(Sys::Mremap, [old, 0x2000, 0x100000, 1, 0, 0], new as i64),
        fault(new, Access::Write, Cause::Protection),
        exit(vec![private(new, 256)]),
    ];
    let report = check(events);
    assert_eq!(report.unexplained, 0, "{}", report.text());
    assert_eq!(report.count_of(DifferenceKind::Cause) + report.count_of(DifferenceKind::NoFault), 0);
}

#[test]
fn shared_memory_does_not_grow_with_mremap() {
    let (at, new) = (TOP - 0x2000, TOP - 0x6000);
    let grown = call(Sys::Mremap, [at, 0x1000, 0x4000, 1, 0, 0], new as i64);
    let bus = super::at(PID, Kind::Signal(Signal { number: 7, code: 2, address: new + 0x1000 }));
    let end = exit(vec![mapping(new, 4, "rw-s", "/dev/zero (deleted)", "rd wr sh mr mw me ms")]);
    let beyond = fault(new + 0x1000, Access::Write, Cause::Absent);
    let report = check(vec![mmap_with(0x21, 1, at), grown.clone(), beyond, bus, end]);
    assert_eq!(
        (report.unexplained, report.count_of(DifferenceKind::ImposedPage)),
        (0, 1),
        "{}",
        report.text()
    );
    let inside = fault(new, Access::Write, Cause::Absent);
    let bus = super::at(PID, Kind::Signal(Signal { number: 7, code: 2, address: new }));
    let report = check(vec![mmap_with(0x21, 1, at), grown, inside, bus]);
    assert_eq!(report.count_of(DifferenceKind::Allowed), 1, "what the object has is not excused");
}

#[test]
fn memory_mapped_locked_is_not_joined_and_that_is_explained() {
    let (above, below) = (TOP - 0x5000, TOP - 0x9000);
    let events = vec![
        mmap_with(0x2022, 4, above),
        anonymous(4, below),
        fault(below, Access::Write, Cause::Absent),
        exit(vec![private(below, 4), mapping(above, 4, "rw-p", "", "rd wr mr mw me lo ac")]),
    ];
    let report = check(events);
    assert_eq!(
        (report.unexplained, report.count_of(DifferenceKind::ImposedEdge)),
        (0, 1),
        "{}",
        report.text()
    );
    assert!(ways(&report).contains(&(Sys::Mmap, Way::Imposed)));
}

#[test]
fn droppable_and_growing_memory_is_imposed_where_linux_put_it() {
    let (droppable, growing) = (TOP - 0x2000, TOP - 0x8000);
    let events = vec![
        mmap_with(0x28, 1, droppable),
        mmap_with(0x122, 4, growing),
        fault(growing, Access::Write, Cause::Absent),
        exit(vec![
            mapping(growing, 4, "rw-p", "", "rd wr mr mw me gd ac"),
            mapping(droppable, 1, "rw-p", "", "rd wr mr mw me nr wf dd dp"),
        ]),
    ];
    let report = check(events);
    assert_eq!(report.unexplained, 0, "{}", report.text());
    assert_eq!(ways(&report), [(Sys::Mmap, Way::Imposed)]);
}

#[test]
fn a_place_that_differs_is_excused_by_calls_beside_it_however_many_events_lie_between() {
    let (above, below) = (TOP - 0x3000, TOP - 0x5000);
    let with = |event: Event, tid, start_ns, end_ns| match event.kind {
        Kind::Call(call) => Event { tid, kind: Kind::Call(Call { start_ns, end_ns, ..call }), ..event },
        _ => event,
    };
    let unmap = call(Sys::Munmap, [above, 0x2000, 0, 0, 0, 0], 0);
    let mut events = vec![with(anonymous(2, above), PID, 0, 1), with(unmap, PID + 1, 10, 2_000)];
    events.extend((0..10_000).map(|_| fault(STACK, Access::Write, Cause::Unknown)));
    events.push(with(anonymous(2, below), PID, 1_500, 1_505));
    events.push(exit(vec![private(below, 2)]));
    let report = check(events);
    assert_eq!((report.unexplained, report.count_of(DifferenceKind::Meanwhile)), (0, 1), "{}", report.text());
}

#[test]
fn pages_that_were_removed_from_shared_memory_are_absent_for_every_process() {
    let (at, child) = (TOP - 0x3000, PID + 1);
    let touch = |pid, page: u64| {
        let touched = fault(at + (page << 12), Access::Read, Cause::Absent);
        Event { pid, tid: pid, ..touched }
    };
    let remove = call(Sys::Madvise, [at, 0x1000, 9, 0, 0, 0], 0);
    let forked = super::at(PID, Kind::Task(NewTask { tid: child, flags: 17 }));
    let map = mmap_with(0x21, 2, at);
    let mut events = vec![map, touch(PID, 0), touch(PID, 1), forked, touch(child, 0), touch(child, 1)];
    events.extend([remove, touch(PID, 0), touch(child, 0)]);
    let report = check(events.clone());
    assert_eq!(
        (report.unexplained, report.count_of(DifferenceKind::ImposedPage)),
        (0, 2),
        "{}",
        report.text()
    );
    events.push(touch(PID, 1));
    assert_eq!(check(events).count_of(DifferenceKind::NoFault), 1, "a page beside it was not removed");
}

#[test]
fn what_a_seal_refuses_is_imposed_and_no_other_refusal() {
    let at = TOP - 0x3000;
    let refused = |sys, args| call(sys, args, -1);
    let end = || exit(vec![private(at, 2)]);
    let seal = call(Sys::Mseal, [at, 0x1000, 0, 0, 0, 0], 0);
    let report = check(vec![
        anonymous(2, at),
        seal.clone(),
        refused(Sys::Munmap, [at, 0x1000, 0, 0, 0, 0]),
        refused(Sys::Mprotect, [at, 0x2000, 1, 0, 0, 0]),
        refused(Sys::Madvise, [at, 0x1000, DONTNEED, 0, 0, 0]),
        refused(Sys::Mmap, [at, 0x1000, 3, 0x32, u64::MAX, 0]),
        end(),
    ]);
    assert!(report.differences.is_empty(), "{}", report.text());
    assert!(ways(&report).contains(&(Sys::Munmap, Way::Imposed)));
    let beside = refused(Sys::Munmap, [at + 0x1000, 0x1000, 0, 0, 0, 0]);
    let report = check(vec![anonymous(2, at), seal, beside, exit(vec![private(at, 1)])]);
    assert_eq!((report.unexplained, report.count_of(DifferenceKind::Answer)), (1, 1), "{}", report.text());
}

#[test]
fn a_limit_that_the_program_sets_explains_refusals_after_it_and_in_its_children() {
    const NOTHING: i64 = -12;
    let refused = |pid| {
        let refused = call(Sys::Mmap, [0, 0x20_0000, 3, 0x22, u64::MAX, 0], NOTHING);
        Event { pid, tid: pid, ..refused }
    };
    let limit = call(Sys::Prlimit64, [0, 2, 0x7fff_0000, 0, 0, 0], 0);
    let after = check(vec![limit.clone(), refused(PID)]);
    assert_eq!((after.unexplained, after.count_of(DifferenceKind::Limit)), (0, 1), "{}", after.text());
    let before = check(vec![refused(PID), limit.clone()]);
    assert_eq!((before.unexplained, before.count_of(DifferenceKind::Answer)), (1, 1));
    let forked = |child| super::at(PID, Kind::Task(NewTask { tid: child, flags: 17 }));
    let children = check(vec![forked(PID + 1), limit, forked(PID + 2), refused(PID + 1), refused(PID + 2)]);
    let counts = (children.count_of(DifferenceKind::Answer), children.count_of(DifferenceKind::Limit));
    assert_eq!(counts, (1, 1), "the child that was made before has no limit");
}

#[test]
fn a_hint_below_the_lowest_counts_as_that() {
    let hinted = |settings: &[(&str, &str)], result| {
        let mut header = header();
        header.host.settings = settings.iter().map(|&(name, text)| (name.into(), text.into())).collect();
        let events = vec![call(Sys::Mmap, [12345, 0x1000, 3, 0x22, u64::MAX, 0], result)];
        Replay::of(header, events).unwrap().check(Path::Speculative, |_| ()).unwrap()
    };
    let allowed = ("/proc/sys/vm/mmap_min_addr", "4096");
    let recorded = hinted(&[allowed, ("lowest hint", "65536")], 0x1_0000);
    assert!(recorded.differences.is_empty(), "{}", recorded.text());
    assert!(hinted(&[allowed], 0x1_0000).differences.is_empty(), "what most kernels are built with");
    assert!(hinted(&[allowed, ("lowest hint", "4096")], 0x3000).differences.is_empty());
    assert_eq!(hinted(&[allowed, ("lowest hint", "4096")], 0x1_0000).unexplained, 1);
}

#[test]
fn a_privileged_program_maps_below_what_others_may() {
    let low = |place: u64, result| call(Sys::Mmap, [place, 0x1000, 3, 0x32, u64::MAX, 0], result);
    let report = check(vec![low(0, 0), low(0x1000, 0x1000), fault(0x1000, Access::Write, Cause::Absent)]);
    assert!(report.differences.is_empty(), "{}", report.text());
    let refused = check(vec![low(0, -1)]);
    assert!(refused.differences.is_empty(), "others are refused: {}", refused.text());
}
