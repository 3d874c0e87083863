//! What a replay costs: time for each event that does not grow with their number or with what is mapped, and
//! memory for what is there at one time.

use super::*;
use crate::forks::{fork, in_process};
use interleaf_lab::replay::Memory;
use interleaf_lab::replay::made::{self, Made};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
const POPULATED: u64 = 0x8022;

fn madvise(at: u64, len: u64, advice: u64) -> Event {
    call(Sys::Madvise, [at, len, advice, 0, 0, 0], 0)
}

fn munmap(at: u64, len: u64) -> Event {
    call(Sys::Munmap, [at, len, 0, 0, 0, 0], 0)
}

fn mmap(at: u64, len: u64, flags: u64) -> Event {
    call(Sys::Mmap, [0, len, 3, flags, u64::MAX, 0], at as i64)
}

fn end(pid: u32) -> Event {
    at(pid, Kind::Exit(ProcessExit { status: 0, image: None }))
}

/// Frames of both machines that a replay asks for beyond those of the pages, MiB.
const BESIDE_MIB: u64 = 2 * 36;

/// Asserts that so many MiB are live at most: each of two machines has twice as much.
fn assert_needs(events: Vec<Event>, live_mib: u64) {
    let needs_mib = program(events).memory_bytes() / MIB;
    assert!(needs_mib >= 4 * live_mib, "{needs_mib} MiB for {live_mib}");
    assert!(needs_mib <= 4 * live_mib + live_mib / 4 + BESIDE_MIB, "{needs_mib} MiB for {live_mib}");
}

/// Seconds that a replay takes, the shortest of two.
fn seconds(made: &Made) -> f64 {
    let once = || {
        let began = Instant::now();
        let replay = Replay::of(made.header.clone(), made.events.clone()).unwrap();
        let report = replay.check(Path::Speculative, |_| ()).unwrap();
        assert!(report.differences.is_empty(), "{}", report.text());
        began.elapsed()
    };
    once().min(once()).as_secs_f64()
}

/// `replay.linear` holds 1.5; this is no measurement, and notices what grows with the number of events.
#[test]
fn sixteen_times_the_events_take_sixteen_times_as_long() {
    for make in [made::loops, made::beside_living] {
        let (short, long) = (seconds(&make(5_000)), seconds(&make(80_000)));
        assert!(long < 16.0 * 4.0 * short, "{short} s, and {long} s for 16 times as much");
    }
}

#[test]
fn sixty_five_thousand_mappings_that_live_together_are_replayed() {
    let at = TOP - 0x1000 - (80_000 << 12);
    let mut events = vec![mmap(at, 80_000 << 12, 0x4022)];
    let protect = |page: u64| call(Sys::Mprotect, [at + (page << 12), 0x1000, 1, 0, 0, 0], 0);
    // Each makes two more.
    events.extend((0..32_500).map(|n| protect(1 + 2 * n)));
    events.extend((0..1_000).map(|n| fault(at + ((n * 64) << 12), Access::Write, Cause::Absent)));
    events.push(munmap(at, 80_000 << 12));
    events.push(exit(vec![]));
    let began = Instant::now();
    let report = check(events);
    assert!(report.differences.is_empty(), "{}", report.text());
    assert_eq!(report.resident.peak_kib, 4_000);
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

#[test]
fn memory_that_is_populated_and_unmapped_in_turns_is_needed_once() {
    // Linux puts it on a huge-page boundary.
    let at = (TOP - 0x1000 - 64 * MIB) & !(2 * MIB - 1);
    let turn = || [mmap(at, 64 * MIB, POPULATED), munmap(at, 64 * MIB)];
    assert_needs((0..300).flat_map(|_| turn()).collect(), 64);
    let report = check((0..3).flat_map(|_| turn()).chain([exit(vec![])]).collect());
    assert!(report.differences.is_empty(), "{}", report.text());
    assert_eq!(report.resident.peak_kib, 64 << 10);
}

#[test]
fn a_fork_after_many_calls_needs_what_there_is_then() {
    let at = TOP - 0x5000;
    let mut events = vec![mmap(at, 0x4000, 0x22)];
    events.extend((0..400_000).map(|_| madvise(at, 0x4000, 4)));
    events.extend([fault(at, Access::Write, Cause::Absent), fork(PID, 11), end(11), end(PID)]);
    assert_needs(events, 0);
}

#[test]
fn a_page_counts_until_it_is_given_back() {
    let at = TOP - 0x1000 - 64 * MIB;
    let populate = |at| madvise(at, 64 * MIB, 23);
    let both = vec![mmap(at, 64 * MIB, 0x22), populate(at), mmap(at - 64 * MIB, 64 * MIB, POPULATED)];
    assert_needs(both, 128);
    let dropped = vec![mmap(at, 64 * MIB, POPULATED), madvise(at, 64 * MIB, 4), populate(at)];
    assert_needs(dropped, 64);
    let heap = |end: u64| call(Sys::Brk, [end, 0, 0, 0, 0, 0], end as i64);
    let touches = (0..8192).map(|page| fault(0x60_0000 + (page << 12), Access::Write, Cause::Absent));
    let once: Vec<Event> =
        [heap(0x60_0000 + 32 * MIB)].into_iter().chain(touches).chain([heap(0x60_0000)]).collect();
    assert_needs(once.iter().cycle().take(3 * once.len()).cloned().collect(), 32);
    let moved = call(Sys::Mremap, [at, 64 * MIB, 64 * MIB, 3, at - 64 * MIB, 0], (at - 64 * MIB) as i64);
    assert_needs(vec![mmap(at, 64 * MIB, POPULATED), moved, munmap(at - 64 * MIB, 64 * MIB)], 128);
    // What a mapping without rights has, nothing.
    assert_needs(vec![call(Sys::Mmap, [0, 64 * MIB, 0, POPULATED, u64::MAX, 0], at as i64)], 0);
}

#[test]
fn what_a_fork_shares_counts_once_and_what_is_copied_again() {
    let at = TOP - 0x1000 - 64 * MIB;
    let populate = |pid| in_process(pid, madvise(at, 64 * MIB, 23));
    let begin = || vec![mmap(at, 64 * MIB, POPULATED)];
    let with = |more: Vec<Event>| begin().into_iter().chain(more).collect::<Vec<_>>();
    // A space ends with its last event.
    let touch = |pid| in_process(pid, fault(at, Access::Write, Cause::Absent));
    let forks: Vec<Event> = (11..21).map(|child| fork(PID, child)).collect();
    let touches: Vec<Event> = (11..21).map(touch).collect();
    assert_needs(with([forks.clone(), touches.clone()].concat()), 64);
    assert_needs(with([forks, vec![populate(11), populate(12)], touches].concat()), 3 * 64);
    // One after the other; and what the first leaves is the second's, which copies nothing any more.
    let in_turn =
        vec![fork(PID, 11), populate(11), end(11), fork(PID, 12), populate(12), end(12), touch(PID)];
    assert_needs(with(in_turn), 2 * 64);
    let left = vec![fork(PID, 11), end(PID), populate(11), fork(11, 12), end(11), populate(12)];
    assert_needs(with(left), 64);
    // A child that ended has filled shared memory, which its parent still has.
    let shared = vec![mmap(at, 64 * MIB, 0x21), fork(PID, 11), populate(11), end(11)];
    let other = mmap(at - 64 * MIB, 64 * MIB, POPULATED);
    assert_needs([shared, vec![other]].concat(), 2 * 64);
}

#[test]
fn a_replay_that_needs_too_much_says_what_would_help() {
    let at = TOP - 0x1000 - 4096 * MIB;
    let events =
        || vec![mmap(at, 4096 * MIB, 0x22), madvise(at, 4096 * MIB, 14), madvise(at, 1024 * MIB, 23)];
    let within = |mib: u64| Replay::within(Memory::allowed(mib * MIB), header(), events());
    let said = within(512).err().unwrap();
    let (_, option) = said.split_once("--memory ").and_then(|_| said.rsplit_once("; --memory ")).unwrap();
    let (number, rest) = option.split_once('M').unwrap();
    assert!(said.contains("512 MiB that --memory allows"), "{said}");
    assert!(rest.starts_with(" allows it"), "{said}");
    assert!(within(number.parse().unwrap()).is_ok(), "{said}");
    let of_this_machine = Replay::of(header(), vec![mmap(0x10_0000_0000, 1 << 45, POPULATED)]).err().unwrap();
    assert!(of_this_machine.contains("MiB that this machine has; --memory "), "{of_this_machine}");
}

#[test]
fn with_huge_pages_all_that_is_mapped_around_a_page_counts() {
    let at = TOP - (64 << 20);
    let touch = |n: u64| fault(at + n * 2 * MIB, Access::Write, Cause::Absent);
    let events = || (0..32).map(touch).chain([]);
    let mapped = || [mmap(at, 63 * MIB, 0x22)].into_iter().chain(events()).collect::<Vec<_>>();
    assert_needs(mapped(), 0);
    let replay = program(mapped());
    let huge = replay.with_huge_pages(interleaf::vma::HugePolicy::Always).unwrap();
    assert!(huge.memory_bytes() / MIB >= 4 * 63, "{}", huge.memory_bytes() / MIB);
    // A mapping of a page has no more.
    let page = |n: u64| [mmap(at + n * 2 * MIB, 0x1000, 0x22), touch(n)];
    let pages = program((0..31).flat_map(page).collect());
    let pages = pages.with_huge_pages(interleaf::vma::HugePolicy::Always).unwrap();
    assert!(pages.memory_bytes() / MIB <= BESIDE_MIB + 4, "{}", pages.memory_bytes() / MIB);
}

/// Linux keeps neighbours apart that are of different files, or of offsets that do not go on.
#[test]
fn files_side_by_side_count_as_linux_counts_them() {
    let at = TOP - 0x1000 - 0x3000;
    let file = |start, inode, offset| Mapping { inode, offset, ..mapping(start, 1, "r--p", "/lib/y", "rd") };
    let mut header = header();
    header
        .image
        .mappings
        .splice(1..1, [file(0x50_0000, 7, 0), file(0x50_1000, 7, 0x5000), file(0x50_2000, 8, 0x1000)]);
    let count = header.image.mappings.len();
    header.host.settings.push(("/proc/sys/vm/max_map_count".into(), (count + 2).to_string()));
    let split = call(Sys::Mprotect, [at + 0x1000, 0x1000, 1, 0, 0, 0], -12);
    let report = |header: &Header| {
        let events = vec![mmap(at, 0x3000, 0x22), split.clone()];
        Replay::of(header.clone(), events).unwrap().check(Path::Speculative, |_| ()).unwrap()
    };
    assert!(report(&header).differences.is_empty(), "{}", report(&header).text());
    // Those of one file whose offsets go on are one.
    header.image.mappings[2].offset = 0x1000;
    assert_eq!(report(&header).count_of(DifferenceKind::Answer), 1);
}
