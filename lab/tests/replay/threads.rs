//! Threads that map at the same time: which call took effect first, the recording does not say.

use super::*;

/// Another thread unmaps the first page of a mapping from `unmapped_ns` on, for 5 ns; memory is mapped below
/// it from 10 to 20 ns. Linux did that before the unmapping, and so joined the two: they have one identity,
/// and are joined again where the page is mapped again. Here the unmapping comes first.
fn edges_while_another_thread_unmaps(unmapped_ns: u64) -> Report {
    let (above, below) = (TOP - 0x4000, TOP - 0x6000);
    let with = |event: Event, tid, start_ns: u64, time_ns, end_ns| match event.kind {
        Kind::Call(call) => {
            Event { time_ns, tid, kind: Kind::Call(Call { start_ns, end_ns, ..call }), ..event }
        }
        kind => Event { time_ns, tid, kind, ..event },
    };
    let write = |address, time_ns| with(fault(address, Access::Write, Cause::Absent), PID, 0, time_ns, 0);
    let unmap = call(Sys::Munmap, [above, 0x1000, 0, 0, 0, 0], 0);
    let again = call(Sys::Mmap, [above, 0x1000, 3, 0x32, u64::MAX, 0], above as i64);
    let mut events = vec![
        with(anonymous(3, above), PID, 0, 1, 1),
        write(above, 2),
        // The fault before is over.
        write(above + 0x1000, 3),
        with(unmap, PID + 1, unmapped_ns, unmapped_ns, unmapped_ns + 5),
        with(anonymous(2, below), PID, 10, 20, 20),
        write(below, 22),
        with(again, PID, 40, 41, 41),
        write(above, 42),
        exit(vec![private(below, 5)]),
    ];
    events.sort_by_key(|event| if matches!(event.kind, Kind::Exit(_)) { 50 } else { event.time_ns });
    check(events)
}

#[test]
fn an_edge_is_excused_only_where_calls_beside_it_were_under_way_together() {
    let during = edges_while_another_thread_unmaps(12);
    let edges = during.count_of(DifferenceKind::MeanwhileEdge);
    assert_eq!((during.unexplained, edges), (0, 1), "{}", during.text());
    let before = edges_while_another_thread_unmaps(4);
    let edges = (before.count_of(DifferenceKind::MeanwhileEdge), before.count_of(DifferenceKind::Edge));
    assert_eq!(edges, (0, 1), "{}", before.text());
}

/// A page that may only be read is stored to at 15 ns and, if `signal_ns` is given, a signal follows; another
/// thread lets it be written from 10 ns to `until_ns`.
fn store_while_another_thread_gives_rights(until_ns: u64, cause: Cause, signal_ns: Option<u64>) -> Report {
    let at = TOP - 0x2000;
    let timed = |event: Event, tid, time_ns| Event { time_ns, tid, ..event };
    let mut give = timed(call(Sys::Mprotect, [at, 0x1000, 3, 0, 0, 0], 0), PID + 1, 10);
    if let Kind::Call(call) = &mut give.kind {
        (call.start_ns, call.end_ns) = (10, until_ns);
    }
    let mut events = vec![
        anonymous(1, at),
        timed(fault(at, Access::Write, Cause::Absent), PID, 2),
        timed(call(Sys::Mprotect, [at, 0x1000, 1, 0, 0, 0], 0), PID, 5),
        give,
        timed(fault(at, Access::Write, cause), PID, 15),
    ];
    let signal = |time_ns| {
        timed(super::at(PID, Kind::Signal(Signal { number: 11, code: 2, address: at })), PID, time_ns)
    };
    events.extend(signal_ns.map(signal));
    events.push(timed(fault(STACK, Access::Write, Cause::Absent), PID, 40));
    check(events)
}

#[test]
fn a_fault_beside_a_call_that_changes_its_mapping_may_have_come_before_or_after() {
    let meanwhile = |report: &Report| (report.unexplained, report.count_of(DifferenceKind::MeanwhileFault));
    let refused = store_while_another_thread_gives_rights(20, Cause::Protection, Some(30));
    assert_eq!(meanwhile(&refused), (0, 1), "{}", refused.text());
    let absent = store_while_another_thread_gives_rights(20, Cause::Absent, None);
    assert_eq!(meanwhile(&absent), (0, 1), "{}", absent.text());
    let after = store_while_another_thread_gives_rights(14, Cause::Protection, Some(30));
    assert_eq!(meanwhile(&after), (1, 0), "the call was over: {}", after.text());
}
