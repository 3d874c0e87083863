//! Memory of kinds that the library does not have: what it refuses is imposed, what lies before it is done.

use super::*;
use interleaf_lab::replay::Way;

const AT: u64 = TOP - 0x9000;
const CHILD: u32 = 11;
const EINTR: i64 = -4;
const EACCES: i64 = -13;
const EFAULT: i64 = -14;
const EINVAL: i64 = -22;
const DONTNEED: u64 = 4;
const COLD: u64 = 20;
const POPULATE_WRITE: u64 = 23;
const DONTNEED_LOCKED: u64 = 24;
const GUARD_INSTALL: u64 = 102;
const GUARD_REMOVE: u64 = 103;

fn write(address: u64, cause: Cause) -> Event {
    fault(address, Access::Write, cause)
}

fn signal(code: i32, address: u64) -> Event {
    at(PID, Kind::Signal(Signal { number: 11, code, address }))
}

fn protect(address: u64, pages: u64, rights: u64, result: i64) -> Event {
    call(Sys::Mprotect, [address, pages << 12, rights, 0, 0, 0], result)
}

fn advise(address: u64, pages: u64, advice: u64, result: i64) -> Event {
    call(Sys::Madvise, [address, pages << 12, advice, 0, 0, 0], result)
}

fn written(pages: u64) -> Vec<Event> {
    let touched = (0..pages).map(|page| write(AT + (page << 12), Cause::Absent));
    std::iter::once(fixed(pages, AT)).chain(touched).collect()
}

/// Memory at `AT`, where Linux was not free to choose.
fn fixed(pages: u64, address: u64) -> Event {
    call(Sys::Mmap, [address, pages << 12, 3, 0x32, u64::MAX, 0], address as i64)
}

fn is_imposed(report: &Report, sys: Sys) -> bool {
    report.calls.iter().any(|row| (row.call, row.way) == (sys, Way::Imposed))
}

/// Nothing differs at all.
fn alike(events: Vec<Event>) -> Report {
    let report = check(events);
    assert!(report.differences.is_empty(), "{}", report.text());
    report
}

#[test]
fn a_call_that_a_signal_ended_has_done_nothing() {
    for result in [EINTR, -512, -513] {
        let events = vec![
            call(Sys::Munmap, [AT, 0x1000, 0, 0, 0, 0], result),
            protect(AT, 1, 1, result),
            advise(AT, 2, DONTNEED, result),
            call(Sys::Mmap, [0, 0x1000, 3, 0x22, u64::MAX, 0], result),
            call(Sys::Brk, [0x70_0000, 0, 0, 0, 0, 0], result),
            call(Sys::Mremap, [AT, 0x2000, 0x8000, 1, 0, 0], result),
            exit(vec![private(AT, 2)]),
        ];
        let report = alike([written(2), events].concat());
        let left = report.calls.iter().filter(|row| row.way == Way::Left);
        assert_eq!(left.map(|row| row.count.times).sum::<u64>(), 6);
    }
}

// What the kernel maps: two pages of ours, then [vvar] and [vdso].

const VVAR: u64 = AT + 0x2000;

fn of_the_kernel() -> [Mapping; 2] {
    let vvar = mapping(VVAR, 4, "r--p", "[vvar]", "rd mr pf io de dd");
    [vvar, mapping(VVAR + 0x4000, 2, "r-xp", "[vdso]", "rd ex mr mw me de")]
}

/// Calls from two written pages on, of which the first may only be read in the end if `is_read_only`.
fn across_special(calls: Vec<Event>, rest: Vec<Mapping>) -> Report {
    let mut header = header();
    header.image.mappings.splice(1..1, of_the_kernel());
    let mapped = call(Sys::Mmap, [AT, 0x2000, 3, 0x32, u64::MAX, 0], AT as i64);
    let touched = [write(AT, Cause::Absent), write(AT + 0x1000, Cause::Absent)];
    let mut events = vec![mapped];
    events.extend(touched.into_iter().chain(calls));
    events.push(exit(rest.into_iter().chain(of_the_kernel()).collect()));
    Replay::of(header, events).unwrap().check(Path::Speculative, |_| ()).unwrap()
}

#[test]
fn memory_of_the_kernel_refuses_what_lies_before_has_taken() {
    let read_only = || mapping(AT, 2, "r--p", "", "rd mr mw me ac");
    let calls = vec![
        protect(AT, 6, 1, 0),
        protect(AT, 6, 3, EACCES),
        write(AT, Cause::Protection),
        advise(AT, 6, COLD, EINVAL),
        advise(AT, 6, DONTNEED, EINVAL),
        advise(AT, 6, POPULATE_WRITE, EINVAL),
        advise(AT, 6, 17, EINVAL),
        advise(AT, 6, 11, EINVAL),
    ];
    let report = across_special(calls, vec![private(AT, 2)]);
    assert_eq!(report.unexplained, 0, "{}", report.text());
    assert!(is_imposed(&report, Sys::Mprotect) && is_imposed(&report, Sys::Madvise));
    assert_eq!(report.frames_zeroed, 4, "dropped, and filled again");
    let granted = across_special(vec![advise(AT, 6, COLD, 0)], vec![private(AT, 2)]);
    assert_eq!(granted.count_of(DifferenceKind::Answer), 1, "it is predicted");
    let granted = across_special(vec![protect(AT, 2, 1, EACCES)], vec![read_only()]);
    assert_eq!(granted.count_of(DifferenceKind::Answer), 1, "ours alone is granted");
}

#[test]
fn a_mapping_of_the_kernel_is_not_cut() {
    let unmap = call(Sys::Munmap, [AT + 0x1000, 0x2000, 0, 0, 0, 0], EINVAL);
    let cut = vec![unmap, protect(VVAR, 1, 0, EINVAL)];
    let report = across_special(cut, vec![private(AT, 2)]);
    assert_eq!((report.unexplained, report.maps.agreed), (0, 1), "{}", report.text());
}

fn file(address: u64, pages: u64, rights: u64, flags: u64) -> Event {
    call(Sys::Mmap, [address, pages << 12, rights, flags | 0x10, 3, 0], address as i64)
}

#[test]
fn a_file_that_was_opened_to_be_read_refuses_to_be_written() {
    const SHARED: u64 = 1;
    let between = |flags, result| {
        let events = [file(AT + 0x1000, 2, 1, flags), protect(AT, 4, 1, 0), protect(AT, 4, 3, result)];
        let end = [
            private(AT, 1),
            mapping(AT + 0x1000, 2, "r--s", "/data", "rd mr me ms sh"),
            mapping(AT + 0x3000, 1, "r--p", "", "rd mr mw me"),
        ];
        check([vec![fixed(4, AT)], events.to_vec(), vec![exit(end.to_vec())]].concat())
    };
    let report = between(SHARED, EACCES);
    assert_eq!((report.unexplained, report.maps.agreed), (0, 1), "{}", report.text());
    assert!(is_imposed(&report, Sys::Mprotect));
    let private_file = between(2, EACCES);
    assert_eq!(
        private_file.count_of(DifferenceKind::Answer),
        1,
        "its pages are copied, however it was opened"
    );
    let was_granted = [file(AT, 2, 3, SHARED), protect(AT, 1, 1, 0), protect(AT, 1, 3, EACCES)];
    let report = check(was_granted.to_vec());
    assert!(!is_imposed(&report, Sys::Mprotect), "what was granted before is not refused");
}

#[test]
fn a_guard_drops_its_page_and_refuses_accesses_until_it_is_removed() {
    let guarded = AT + 0x2000;
    let refused = || vec![write(guarded, Cause::Absent), signal(1, guarded)];
    let mut events = written(4);
    events.push(advise(guarded, 1, GUARD_INSTALL, 0));
    events.extend(refused());
    events.extend([advise(AT, 4, DONTNEED, 0), protect(AT, 4, 1, 0), protect(AT, 4, 3, 0)]);
    events.extend(refused());
    events.push(advise(AT, 4, POPULATE_WRITE, EFAULT));
    events.extend([write(AT + 0x3000, Cause::Absent), advise(AT, 4, GUARD_REMOVE, 0)]);
    events.extend([write(guarded, Cause::Absent), exit(vec![private(AT, 4)])]);
    let report = check(events);
    let guards = report.count_of(DifferenceKind::ImposedGuard);
    assert_eq!((report.unexplained, guards), (0, 2), "{}", report.text());
    assert_eq!(report.frames_zeroed, 4 + 2 + 2);
    assert!(is_imposed(&report, Sys::Madvise) && report.text().contains("guard page"));
}

#[test]
fn a_guard_that_linux_does_not_have_is_seen() {
    let install = || advise(AT, 1, GUARD_INSTALL, 0);
    let touched = write(AT, Cause::Absent);
    let resolved = check([written(1), vec![install(), touched.clone()]].concat());
    assert_eq!(resolved.count_of(DifferenceKind::Refused), 1, "{}", resolved.text());
    let unmapped = call(Sys::Munmap, [AT, 0x1000, 0, 0, 0, 0], 0);
    alike([written(1), vec![install(), unmapped, fixed(1, AT), touched.clone()]].concat());
    let moved = call(Sys::Mremap, [AT, 0x1000, 0x1000, 3, AT - 0x5000, 0], (AT - 0x5000) as i64);
    let there = [install(), moved, write(AT - 0x5000, Cause::Absent), signal(1, AT - 0x5000)];
    let report = check([written(1), there.to_vec(), vec![fixed(1, AT), touched]].concat());
    assert_eq!(
        (report.unexplained, report.count_of(DifferenceKind::ImposedGuard)),
        (0, 1),
        "{}",
        report.text()
    );
}

#[test]
fn a_fork_copies_guards_where_it_copies_pages() {
    let fork = at(PID, Kind::Task(NewTask { tid: CHILD, flags: 17 }));
    let in_child = |event: Event| Event { pid: CHILD, tid: CHILD, ..event };
    let touched = |more: Vec<Event>| {
        let events = vec![fixed(1, AT), advise(AT, 1, GUARD_INSTALL, 0), fork.clone()];
        check([events, more.into_iter().map(in_child).collect()].concat())
    };
    let kept = touched(vec![write(AT, Cause::Absent), signal(1, AT)]);
    assert_eq!((kept.unexplained, kept.count_of(DifferenceKind::ImposedGuard)), (0, 1), "{}", kept.text());
    let wiped = vec![
        fixed(1, AT),
        advise(AT, 1, 18, 0),
        advise(AT, 1, GUARD_INSTALL, 0),
        fork.clone(),
        in_child(write(AT, Cause::Absent)),
    ];
    alike(wiped);
}

#[test]
fn a_protection_key_refuses_what_the_mapping_allows() {
    let events = |code| {
        let load = fault(AT, Access::Read, Cause::Absent);
        check(vec![fixed(1, AT), protect(AT, 1, 4, 0), load, signal(code, AT)])
    };
    let keyed = events(4);
    assert_eq!((keyed.unexplained, keyed.count_of(DifferenceKind::ImposedKey)), (0, 1), "{}", keyed.text());
    assert_eq!(events(2).count_of(DifferenceKind::Allowed), 1, "another signal is not of a key");
}

#[test]
fn locked_memory_is_dropped_where_linux_was_told_so_and_stays_locked_when_it_moves() {
    let lock = call(Sys::Mlock, [AT, 0x2000, 0, 0, 0, 0], 0);
    let again = || vec![write(AT, Cause::Absent), write(AT + 0x1000, Cause::Absent)];
    let dropped = vec![lock.clone(), advise(AT, 2, DONTNEED_LOCKED, 0)];
    alike([written(2), dropped, again(), vec![exit(vec![private(AT, 2)])]].concat());
    let to = AT - 0x5000;
    let moved = call(Sys::Mremap, [AT, 0x2000, 0x2000, 3, to, 0], to as i64);
    let report = check([written(2), vec![lock, moved, advise(to, 2, DONTNEED, EINVAL)]].concat());
    assert_eq!(report.unexplained, 0, "{}", report.text());
}

#[test]
fn memory_that_leaves_its_mapping_behind_never_stays_where_it_is() {
    let (to, hint) = (TOP - 0x3000, AT - 0x8000);
    let moved =
        |from: u64, hint: u64, to: u64| call(Sys::Mremap, [from, 0x2000, 0x2000, 5, hint, 0], to as i64);
    let more = vec![
        moved(AT, 0, to),
        write(AT, Cause::Absent),
        moved(to, hint, hint),
        write(to + 0x1000, Cause::Absent),
        exit(vec![private(hint, 2), private(AT, 2), private(to, 2)]),
    ];
    let report = check([written(2), more].concat());
    assert_eq!(report.unexplained, 0, "{}", report.text());
    assert_eq!((report.places.agreed, report.places.of), (2, 2));
}

#[test]
fn a_file_of_two_mebibytes_moves_to_a_huge_page_boundary() {
    const HUGE: u64 = 2 << 20;
    let (old, to) = (TOP - 0x20_3000, 0x6fff_ff80_0000);
    let moved = |to: u64| call(Sys::Mremap, [old, HUGE + 0x1000, 2 * HUGE + 0x1000, 1, 0, 0], to as i64);
    let map = call(Sys::Mmap, [old, HUGE + 0x1000, 3, 0x11, 3, 0], old as i64);
    let report = check(vec![map.clone(), moved(to)]);
    assert_eq!((report.unexplained, report.count_of(DifferenceKind::FilePlace)), (0, 1), "{}", report.text());
    let elsewhere = check(vec![map, moved(to + 0x3000)]);
    assert_eq!(elsewhere.count_of(DifferenceKind::Place), 1, "which no file system asks for");
    let anonymous =
        check(vec![call(Sys::Mmap, [old, HUGE + 0x1000, 3, 0x32, u64::MAX, 0], old as i64), moved(to)]);
    assert_eq!(anonymous.count_of(DifferenceKind::FilePlace), 0, "it is of no file");
}

#[test]
fn a_stack_grows_as_far_as_its_limit_and_keeps_off_what_lies_below() {
    let stack = |start: u64| call(Sys::Mmap, [start, 0x2000, 3, 0x132, u64::MAX, 0], start as i64);
    let below = |gap_pages: u64| AT - ((gap_pages + 1) << 12);
    let grown = |gap_pages: u64, rights: u64, last: Vec<Event>| {
        let place = below(gap_pages);
        let map = call(Sys::Mmap, [place, 0x1000, rights, 0x32, u64::MAX, 0], place as i64);
        check([vec![stack(AT), map, write(AT - 0x1000, Cause::Absent)], last].concat())
    };
    let refused = || vec![signal(1, AT - 0x1000)];
    assert_eq!(grown(256, 3, refused()).unexplained, 0, "a page of the gap would go");
    assert_eq!(grown(257, 3, vec![]).unexplained, 0, "the gap stays");
    assert_eq!(grown(2, 0, vec![]).unexplained, 0, "what cannot be accessed needs no gap");
    assert_eq!(grown(256, 3, vec![]).count_of(DifferenceKind::Refused), 1);
    let mut header = header();
    header.limits.stack_bytes = Some(0x4000);
    let events = vec![
        stack(AT),
        write(AT - 0x1000, Cause::Absent),
        write(AT - 0x2000, Cause::Absent),
        write(AT - 0x3000, Cause::Absent),
        signal(1, AT - 0x3000),
    ];
    let report = Replay::of(header, events).unwrap().check(Path::Speculative, |_| ()).unwrap();
    assert_eq!((report.unexplained, report.faults.stack_growths), (0, 2), "{}", report.text());
}

#[test]
fn the_kernel_takes_a_fault_again_at_the_first_byte_of_the_page() {
    let kernel = |address| {
        let fault = Fault { address, access: Access::Write, mode: Mode::Kernel, cause: Cause::Absent };
        at(PID, Kind::Fault(fault))
    };
    let twice = vec![fixed(2, AT), kernel(AT + 0x5bf), kernel(AT)];
    let report = check(twice);
    assert_eq!(
        (report.unexplained, report.count_of(DifferenceKind::KernelRetried)),
        (0, 1),
        "{}",
        report.text()
    );
    let between = vec![fixed(2, AT), kernel(AT + 0x1040), kernel(AT), kernel(AT + 0x1000)];
    assert_eq!(check(between).count_of(DifferenceKind::KernelRetried), 1);
    let later = vec![fixed(2, AT), kernel(AT + 0x5bf), write(STACK, Cause::Absent), kernel(AT)];
    assert_eq!(check(later).count_of(DifferenceKind::NoFault), 1, "the thread has gone on");
}
