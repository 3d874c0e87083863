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
