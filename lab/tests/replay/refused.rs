//! Calls that Linux refused after they had done a part: that part is followed.

use super::*;
use interleaf_lab::replay::Way;

const AT: u64 = TOP - 0x5000;
const ENOMEM: i64 = -12;
const EAGAIN: i64 = -11;
const EINVAL: i64 = -22;
const EPERM: i64 = -1;
const DONTNEED: u64 = 4;
const DONTNEED_LOCKED: u64 = 24;

fn write(address: u64, cause: Cause) -> Event {
    fault(address, Access::Write, cause)
}

/// Four pages are mapped, of which the first `pages` are written.
fn written(pages: u64) -> Vec<Event> {
    let touched = (0..pages).map(|page| write(AT + (page << 12), Cause::Absent));
    std::iter::once(anonymous(4, AT)).chain(touched).collect()
}

/// What `events` come to, after four pages at `AT` were written.
fn after_four(events: Vec<Event>, rest: Mapping) -> Report {
    check([written(4), events, vec![exit(vec![rest])]].concat())
}

#[test]
fn memory_before_a_locked_part_was_dropped() {
    let lock = call(Sys::Mlock, [AT + 0x2000, 0x1000, 0, 0, 0, 0], 0);
    let drop = |advice, result| call(Sys::Madvise, [AT, 0x4000, advice, 0, 0, 0], result);
    let refused = |more: Vec<Event>| {
        let events = [vec![lock.clone(), drop(DONTNEED, EINVAL)], more].concat();
        after_four(events, private(AT, 4))
    };
    let report = refused(vec![write(AT, Cause::Absent), write(AT + 0x1000, Cause::Absent)]);
    assert!(report.differences.is_empty(), "{}", report.text());
    assert!(report.calls.iter().any(|row| (row.call, row.way) == (Sys::Madvise, Way::Imposed)));
    let behind = refused(vec![write(AT + 0x3000, Cause::Absent)]);
    assert_eq!(behind.count_of(DifferenceKind::NoFault), 1, "what lies behind is kept");
    let all = vec![lock, drop(DONTNEED_LOCKED, 0), write(AT + 0x2000, Cause::Absent)];
    let report = after_four(all, private(AT, 4));
    assert!(report.differences.is_empty(), "{}", report.text());
}

#[test]
fn memory_that_replaced_locked_memory_is_not_locked() {
    let all = |flags| call(Sys::Mlockall, [flags, 0, 0, 0, 0, 0], 0);
    let over = call(Sys::Mmap, [AT, 0x1000, 3, 0x32, u64::MAX, 0], AT as i64);
    let drop = call(Sys::Madvise, [AT, 0x2000, DONTNEED, 0, 0, 0], EINVAL);
    let touched = || write(AT, Cause::Absent);
    let events = |flags| vec![all(flags), over.clone(), touched(), drop.clone(), touched()];
    assert!(after_four(events(1), private(AT, 4)).unexplained == 0, "MCL_CURRENT");
    let future = after_four(events(3), private(AT, 4));
    assert_eq!(future.count_of(DifferenceKind::ImposedPage) + future.unexplained, 1, "MCL_FUTURE too");
}

#[test]
fn rights_before_a_sealed_part_have_changed() {
    let seal = call(Sys::Mseal, [AT + 0x2000, 0x1000, 0, 0, 0, 0], 0);
    let protect = call(Sys::Mprotect, [AT, 0x4000, 1, 0, 0, 0], EPERM);
    let read_only = mapping(AT, 2, "r--p", "", "rd mr mw me ac");
    let events = [written(4), vec![seal, protect, exit(vec![read_only, private(AT + 0x2000, 2)])]].concat();
    let report = check(events);
    assert_eq!(report.unexplained, 0, "{}", report.text());
    assert_eq!(report.maps.agreed, 1);
}

#[test]
fn an_offset_inside_of_a_page_is_refused_as_linux_refuses_it() {
    let mmap = |offset, result| call(Sys::Mmap, [0, 0x1000, 3, 0x22, u64::MAX, offset], result);
    let report = check(vec![mmap(1, EINVAL), mmap(0x800, EINVAL), exit(vec![])]);
    assert!(report.differences.is_empty(), "{}", report.text());
}

#[test]
fn a_request_is_granted_up_to_memory_and_swap() {
    let mmap = |len, result| call(Sys::Mmap, [0, len, 3, 0x22, u64::MAX, 0], result);
    let report = check(vec![mmap((1 << 34) + 0x1000, ENOMEM), exit(vec![])]);
    assert!(report.differences.is_empty(), "{}", report.text());
    let mut host = header();
    let swap = (interleaf_lab::trace::SWAP_BYTES.to_string(), "4096".to_string());
    host.host.settings.push(swap);
    let events = vec![mmap((1 << 34) + 0x2000, ENOMEM), exit(vec![])];
    let report = Replay::of(host.clone(), events).unwrap().check(Path::Speculative, |_| ()).unwrap();
    assert!(report.differences.is_empty(), "{}", report.text());
    let events = vec![mmap((1 << 34) + 0x1000, ENOMEM), exit(vec![])];
    let report = Replay::of(host, events).unwrap().check(Path::Speculative, |_| ()).unwrap();
    assert_eq!(report.count_of(DifferenceKind::Answer), 1, "the swap suffices");
}

/// A call from 100 to 200 ns.
fn refused_fork(sys: Sys, flags: u64, result: i64) -> Event {
    let event = call(sys, [flags, 0, 0, 0, 0, 0], result);
    match event.kind {
        Kind::Call(call) => {
            Event { time_ns: 200, kind: Kind::Call(Call { start_ns: 100, end_ns: 200, ..call }), ..event }
        }
        _ => event,
    }
}

fn later(time_ns: u64, event: Event) -> Event {
    Event { time_ns, ..event }
}

#[test]
fn a_refused_fork_has_taken_the_right_to_write() {
    let again = |time_ns| later(time_ns, write(AT, Cause::Protection));
    let play = |fork: Event, more: Vec<Event>| {
        check([written(2), vec![fork], more, vec![later(900, exit(vec![private(AT, 4)]))]].concat())
    };
    for (sys, result) in
        [(Sys::Clone, ENOMEM), (Sys::Clone, EAGAIN), (Sys::Fork, ENOMEM), (Sys::Clone3, ENOMEM)]
    {
        let report = play(refused_fork(sys, 17, result), vec![again(300)]);
        let explained = report.count_of(DifferenceKind::RefusedFork);
        assert_eq!((report.unexplained, explained), (0, 1), "{sys} {result}: {}", report.text());
    }
    let twice = play(refused_fork(Sys::Clone, 17, ENOMEM), vec![again(300), again(400)]);
    assert_eq!(twice.count_of(DifferenceKind::NoFault), 1, "the first store has given it back");
    let before = play(later(900, refused_fork(Sys::Clone, 17, EINVAL)), vec![again(950)]);
    assert_eq!(before.count_of(DifferenceKind::NoFault), 1, "a call with senseless words has copied nothing");
    let thread = play(refused_fork(Sys::Clone, NewTask::VM | NewTask::THREAD, EAGAIN), vec![again(300)]);
    assert_eq!(thread.count_of(DifferenceKind::NoFault), 1, "a thread copies nothing");
    let loaded = later(300, fault(AT, Access::Read, Cause::Absent));
    let report = play(refused_fork(Sys::Clone, 17, ENOMEM), vec![loaded]);
    assert_eq!(report.count_of(DifferenceKind::NoFault), 1, "pages stay");
}

#[test]
fn a_refused_fork_has_copied_nothing_that_a_child_does_not_get() {
    let dont_fork = call(Sys::Madvise, [AT, 0x4000, 10, 0, 0, 0], 0);
    let marked = mapping(AT, 4, "rw-p", "", "rd wr mr mw me dc ac");
    let again = later(300, write(AT, Cause::Protection));
    let fork = refused_fork(Sys::Clone, 17, ENOMEM);
    let report = check([written(2), vec![dont_fork, fork, again, later(900, exit(vec![marked]))]].concat());
    assert_eq!(report.count_of(DifferenceKind::NoFault), 1, "{}", report.text());
}

/// Linux maps the page that is absent, and refuses the fetch from it.
#[test]
fn a_fetch_from_an_absent_page_that_may_only_be_read_maps_it_first() {
    let fetch = |cause| fault(AT, Access::Execute, cause);
    let signal = |code| at(PID, Kind::Signal(Signal { number: 11, code, address: AT }));
    let play =
        |more: Vec<Event>| check([vec![anonymous(4, AT)], more, vec![exit(vec![private(AT, 4)])]].concat());
    let report = play(vec![fetch(Cause::Absent), fetch(Cause::Protection), signal(2)]);
    assert!(report.differences.is_empty(), "{}", report.text());
    assert_eq!((report.performed, report.faulted), (2, 2));
    let written = play(vec![write(AT, Cause::Absent), fetch(Cause::Protection), signal(2)]);
    assert!(written.differences.is_empty(), "{}", written.text());
    let page = write(AT, Cause::Protection);
    let report = play(vec![fetch(Cause::Absent), fetch(Cause::Protection), signal(2), page]);
    assert!(report.differences.is_empty(), "the zero page is there: {}", report.text());
    let resolved = play(vec![fetch(Cause::Absent), fetch(Cause::Protection)]);
    assert_eq!(resolved.count_of(DifferenceKind::Refused), 1, "it cannot be executed for that");
}

#[test]
fn a_fetch_from_memory_without_rights_is_refused_at_once() {
    let none = call(Sys::Mprotect, [AT, 0x4000, 0, 0, 0, 0], 0);
    let signal = at(PID, Kind::Signal(Signal { number: 11, code: 2, address: AT }));
    let fetch = fault(AT, Access::Execute, Cause::Absent);
    let closed = || exit(vec![mapping(AT, 4, "---p", "", "mr mw me")]);
    let report = check(vec![anonymous(4, AT), none.clone(), fetch.clone(), signal, closed()]);
    assert!(report.differences.is_empty(), "{}", report.text());
    let unsignalled = check(vec![anonymous(4, AT), none, fetch, closed()]);
    assert_eq!(unsignalled.count_of(DifferenceKind::Refused), 1);
}

/// With room for one mapping Linux has split at the start of the part, and is refused at its end.
#[test]
fn the_first_of_two_splits_stays_where_the_second_is_refused() {
    let mut header = header();
    // Three of exec, the memory, and one more.
    header.host.settings.push(("/proc/sys/vm/max_map_count".into(), "5".into()));
    let protect = call(Sys::Mprotect, [AT + 0x1000, 0x1000, 1, 0, 0, 0], ENOMEM);
    let hole = call(Sys::Munmap, [AT + 0x2000, 0x1000, 0, 0, 0, 0], ENOMEM);
    let halves = vec![private(AT, 1), private(AT + 0x1000, 3)];
    let events = [written(4), vec![protect, hole, exit(halves)]].concat();
    let report = Replay::of(header, events).unwrap().check(Path::Speculative, |_| ()).unwrap();
    assert!(report.differences.is_empty(), "{}", report.text());
    assert_eq!(report.maps.agreed, 1);
}

/// A program that may do so (CAP_SYS_RAWIO) maps what is below the lowest address of others.
#[test]
fn the_first_page_is_mapped_where_linux_granted_it() {
    let first = |result| call(Sys::Mmap, [0, 0x1000, 3, 0x32, u64::MAX, 0], result);
    let gone = call(Sys::Munmap, [0, 0x1000, 0, 0, 0, 0], 0);
    let report = check(vec![first(0), gone, exit(vec![])]);
    assert!(report.differences.is_empty(), "{}", report.text());
    let report = check(vec![first(EPERM), exit(vec![])]);
    assert!(report.differences.is_empty(), "{}", report.text());
}
