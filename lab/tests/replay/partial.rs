//! Traces that were recorded without privilege.

use super::*;
use interleaf_lab::replay::Conclusion;
use interleaf_lab::trace::Extent;

fn unknown(address: u64) -> Event {
    fault(address, Access::Unknown, Cause::Unknown)
}

#[test]
fn a_partial_trace_is_replayed_and_says_so() {
    let at = TOP - 0x3000;
    let events = vec![
        anonymous(2, at),
        unknown(at),
        call(Sys::Mprotect, [at, 0x2000, 1, 0, 0, 0], 0),
        unknown(at + 0x1000),
        unknown(TEXT),
        exit(vec![mapping(at, 2, "r--p", "", "rd mr mw me ac")]),
    ];
    let header = Header { extent: Extent::Partial, ..header() };
    let replay = Replay::of(header, events).unwrap();
    let report = replay.check(Path::Speculative, |_| ()).unwrap();
    assert!(report.partial && report.text().contains("PARTIAL"), "{}", report.text());
    assert_eq!((report.unexplained, report.performed, report.faulted), (0, 3, 3), "{}", report.text());
    let conclusion = Conclusion::of(replay);
    assert_eq!((conclusion.linux, conclusion.here.len()), (None, 2));
    let text = conclusion.text();
    assert!(text.trim_start().starts_with("What Linux spent on memory"), "{text}");
}

#[test]
fn the_heap_starts_where_brk_says_if_the_recorder_could_not_see_it() {
    let mut header = header();
    header.image.layout = Layout::default();
    header.image.mappings.truncate(3);
    let heap = 0x1234_5000_u64;
    let events = vec![
        call(Sys::Brk, [0; 6], heap as i64),
        call(Sys::Brk, [heap + 0x2000, 0, 0, 0, 0, 0], (heap + 0x2000) as i64),
        anonymous(2, TOP - 0x3000),
        unknown(heap),
    ];
    let report = Replay::of(header, events).unwrap().check(Path::Speculative, |_| ()).unwrap();
    assert!(report.differences.is_empty(), "{}", report.text());
    assert_eq!((report.places.agreed, report.places.of), (1, 1));
}

#[test]
fn a_wild_access_of_a_partial_trace_is_refused_here_too() {
    let wild = unknown(0x1234_5678);
    let signal = at(PID, Kind::Signal(Signal { number: 11, code: 1, address: 0x1234_5678 }));
    assert_eq!(check(vec![wild.clone(), signal, exit(vec![])]).unexplained, 0);
    assert_eq!(check(vec![wild, exit(vec![])]).count_of(DifferenceKind::Refused), 1);
}

#[test]
fn a_signal_says_that_the_access_was_one_that_the_mapping_forbids() {
    let at = TOP - 0x3000;
    let refused = |rights: u64| {
        vec![
            call(Sys::Mmap, [at, 0x1000, 3, 0x32, u64::MAX, 0], at as i64),
            call(Sys::Mprotect, [at, 0x1000, rights, 0, 0, 0], 0),
            unknown(at),
            super::at(PID, Kind::Signal(Signal { number: 11, code: 2, address: at })),
        ]
    };
    let partial = |events: Vec<Event>| {
        let header = Header { extent: Extent::Partial, ..header() };
        Replay::of(header, events).unwrap().check(Path::Speculative, |_| ()).unwrap()
    };
    for (rights, what) in [(1, "a store"), (3, "a fetch"), (0, "anything"), (5, "a store")] {
        let report = partial(refused(rights));
        assert!(report.differences.is_empty(), "{what}: {}", report.text());
        assert_eq!(report.frames_zeroed, 0, "{what} fills no page");
    }
    assert_eq!(partial(refused(7)).count_of(DifferenceKind::Allowed), 1, "nothing is forbidden");
}
