//! Files that a program mapped, as files: their pages, their lengths, and what the page cache decided.

use super::*;
use crate::forks::{fork, in_process};
use interleaf_lab::trace::{CacheChange, Cached, FileFacts, Inode};

const AT: u64 = TOP - 0x4_1000;
const LEN: u64 = 0x3_2000;
const PRIVATE: u64 = 2;
const SHARED: u64 = 1;
const CHILD: u32 = 11;

/// A file of 50 pages at `AT`. An aligned window begins with its page 1.
fn file(name: &str, flags: u64) -> Event {
    let mut event = call(Sys::Mmap, [AT, LEN, 3, flags | 0x10, 3, 0], AT as i64);
    if let Kind::Call(call) = &mut event.kind {
        call.file = Some(name.into());
    }
    event
}

fn page(number: u64) -> u64 {
    AT + (number << 12)
}

fn read(number: u64) -> Event {
    fault(page(number), Access::Read, Cause::Absent)
}

fn write(number: u64, cause: Cause) -> Event {
    fault(page(number), Access::Write, cause)
}

fn beyond(number: u64) -> [Event; 2] {
    let signal = Signal { number: 7, code: 2, address: page(number) };
    [read(number), at(PID, Kind::Signal(signal))]
}

/// Nothing differs at all, on either path.
fn alike(events: Vec<Event>) -> Report {
    let program = program(events);
    let [locked, report] = [Path::Locked, Path::Speculative].map(|path| program.check(path, |_| ()).unwrap());
    assert!(report.differences.is_empty(), "{}", report.text());
    assert!(locked.differences.is_empty(), "{}", locked.text());
    report
}

/// What is explained by one kind, as often as this.
fn differs(events: Vec<Event>, kind: DifferenceKind, times: u64) {
    let report = check(events);
    let all: u64 = report.differences.iter().map(|row| row.count).sum();
    assert_eq!((report.count_of(kind), all), (times, times), "{}", report.text());
}

#[test]
fn a_store_to_a_private_mapping_copies_the_page_of_the_file() {
    // Loaded, then stored to; stored to at once; and the first once more by another mapping.
    let again = fault(TEXT - 0x1_0000, Access::Read, Cause::Absent);
    let mut second =
        call(Sys::Mmap, [TEXT - 0x1_0000, 0x1000, 1, PRIVATE | 0x10, 3, 0], TEXT as i64 - 0x1_0000);
    if let Kind::Call(call) = &mut second.kind {
        call.file = Some("/data".into());
    }
    let events = vec![
        file("/data", PRIVATE),
        read(0),
        write(0, Cause::Protection),
        write(1, Cause::Absent),
        second,
        again,
    ];
    let report = alike(events);
    assert_eq!((report.frames_copied, report.frames_zeroed), (2, 2), "{}", report.text());
    assert_eq!((report.files.mapped, report.files.files), (2, 3), "the program, the loader, and the file");
}

#[test]
fn a_load_of_a_clean_page_of_a_shared_file_does_not_let_stores_through() {
    alike(vec![file("/data", SHARED), read(0), write(0, Cause::Protection), write(1, Cause::Absent)]);
    // In memory there is nothing to be written back.
    differs(
        vec![file("/memfd:x (deleted)", SHARED), read(0), write(0, Cause::Protection)],
        DifferenceKind::NoFault,
        1,
    );
}

#[test]
fn msync_makes_pages_clean_and_the_cache_does_so_when_it_likes() {
    let sync = call(Sys::Msync, [AT, LEN, 4, 0, 0, 0], 0);
    let events =
        vec![file("/data", SHARED), write(0, Cause::Absent), sync, write(0, Cause::Protection), read(1)];
    alike(events);
    let unseen = vec![file("/data", SHARED), write(0, Cause::Absent), write(0, Cause::Protection)];
    differs(unseen, DifferenceKind::FileWritten, 1);
}

#[test]
fn a_fork_leaves_the_child_copies_and_no_page_of_a_file() {
    let child = |event| in_process(CHILD, event);
    let report = alike(vec![
        file("/data", PRIVATE),
        write(0, Cause::Absent),
        read(20),
        fork(PID, CHILD),
        child(write(0, Cause::Protection)),
        child(read(40)),
        read(1),
    ]);
    assert_eq!(report.frames_copied, 2, "of the file, and of the copy");
    alike(vec![file("/data", PRIVATE), read(0), fork(PID, CHILD), child(read(0))]);
}

#[test]
fn a_page_that_a_load_may_have_mapped_around_itself_was_there_for_linux() {
    let store = |number| vec![file("/data", PRIVATE), read(0), write(number, Cause::Protection)];
    differs(store(15), DifferenceKind::FileAround, 1);
    // The window has sixteen pages, from the mapping's start on.
    differs(store(16), DifferenceKind::Cause, 1);
    let dropped = call(Sys::Madvise, [AT, LEN, 4, 0, 0, 0], 0);
    let events = vec![file("/data", PRIVATE), read(1), dropped, write(2, Cause::Protection)];
    differs(events, DifferenceKind::Cause, 1);
}

#[test]
fn what_the_cache_gave_up_is_named() {
    differs(vec![file("/data", PRIVATE), read(0), read(0)], DifferenceKind::FileCache, 1);
}

#[test]
fn lengths_follow_the_accesses_that_tell_them() {
    let mut events = vec![file("/data", SHARED), write(0, Cause::Absent)];
    events.extend(beyond(3));
    events.extend(beyond(4));
    differs(events.clone(), DifferenceKind::FileLength, 1);
    events.push(write(3, Cause::Absent));
    differs(events, DifferenceKind::FileLength, 2);
}

#[test]
fn a_file_that_moves_stays_the_file() {
    let to = AT - 0x20_0000;
    let moved = call(Sys::Mremap, [AT, LEN, LEN, 3, to, 0], to as i64);
    let there = |number: u64, cause| fault(to + (number << 12), Access::Write, cause);
    let report = check(vec![
        file("/data", PRIVATE),
        write(0, Cause::Absent),
        read(1),
        moved,
        there(1, Cause::Protection),
        there(2, Cause::Absent),
        exit(vec![mapping(to, 50, "rw-p", "/data", "rd wr mr mw me ac")]),
    ]);
    assert_eq!(report.unexplained, 0, "{}", report.text());
    assert_eq!(report.maps.agreed, 1);
}

#[test]
fn what_is_no_file_has_a_stand_in_that_is_named() {
    let report = check(vec![file("/dev/card0", SHARED), read(0)]);
    assert_eq!(report.files.stand_ins.get("/dev/card0"), Some(&1), "{}", report.text());
    assert!(report.text().contains("/dev/card0"), "{}", report.text());
}

// The page cache, followed.

const DATA: Inode = Inode { device: 5, number: 7 };

fn cache(first: u64, pages: u64, cached: Cached) -> Event {
    at(PID, Kind::Cache(CacheChange { inode: DATA, first, pages, cached }))
}

/// The file, of so many bytes, mapped and found to have its first eight pages in the page cache; then the
/// events.
fn followed(len_bytes: u64, events: Vec<Event>) -> Report {
    let mut mapped = file("/data", PRIVATE);
    if let Kind::Call(call) = &mut mapped.kind {
        call.inode = Some(DATA);
    }
    let facts = FileFacts { inode: DATA, len_bytes, is_in_memory: false };
    let mut all = vec![mapped, at(PID, Kind::File(facts)), cache(0, 8, Cached::Found)];
    all.extend(events);
    for (number, event) in all.iter_mut().enumerate() {
        event.time_ns = 1000 * number as u64;
    }
    let replay = Replay::of(Header { page_cache: true, ..header() }, all).unwrap();
    let [locked, report] = [Path::Locked, Path::Speculative].map(|path| replay.check(path, |_| ()).unwrap());
    let differences =
        |report: &Report| report.differences.iter().map(|row| (row.kind, row.count)).collect::<Vec<_>>();
    assert_eq!(differences(&locked), differences(&report));
    report
}

fn followed_alike(len_bytes: u64, events: Vec<Event>) {
    let report = followed(len_bytes, events);
    assert!(report.differences.is_empty(), "{}", report.text());
}

#[test]
fn a_load_maps_around_it_what_the_page_cache_had() {
    followed_alike(LEN, vec![read(0), write(3, Cause::Protection), write(9, Cause::Absent)]);
    let report = followed(LEN, vec![read(0), read(3)]);
    assert_eq!((report.unexplained, report.count_of(DifferenceKind::FileCache)), (0, 1), "{}", report.text());
    followed_alike(LEN, vec![cache(3, 1, Cached::Removed), read(0), read(3)]);
}

#[test]
fn what_a_fault_has_read_in_is_mapped_around_it_when_it_is_tried_again() {
    let read_in = |number| vec![read(17), cache(16, 16, Cached::Added), write(number, Cause::Protection)];
    followed_alike(LEN, read_in(20));
    // What came later was not there before.
    followed_alike(LEN, vec![read(17), write(20, Cause::Absent), cache(20, 1, Cached::Added)]);
}

#[test]
fn a_length_that_was_recorded_is_the_length() {
    let refused = beyond(4).to_vec();
    followed_alike(0x3001, [refused, vec![read(3)]].concat());
}
