//! Huge pages in a replay: the recorded setting, another one, and where Linux's supply decided.

use super::*;
use interleaf::vma::HugePolicy;

/// Two huge pages, aligned.
const AT: u64 = 0x6000_0000_0000;
const PAGES: u64 = 1024;

/// A program that maps the two huge pages, makes these faults, and ends; recorded with such a setting.
fn recorded(setting: &str, faults: &[(u64, Access, Cause)]) -> Replay {
    let mut events = vec![call(Sys::Mmap, [AT, PAGES << 12, 3, 0x32, u64::MAX, 0], AT as i64)];
    events.extend(faults.iter().map(|&(page, access, cause)| fault(AT + (page << 12), access, cause)));
    events.push(exit(vec![Mapping { rss_kib: 8, ..private(AT, PAGES) }]));
    let mut header = header();
    let file = "/sys/kernel/mm/transparent_hugepage/enabled".to_string();
    header.host.settings.push((file, setting.to_string()));
    Replay::of(header, events).unwrap()
}

const ALWAYS: &str = "[always] madvise never";
const NEVER: &str = "always madvise [never]";

#[test]
fn under_the_recorded_setting_a_base_page_of_linuxs_is_one_that_its_supply_decided() {
    let twice = [(0, Access::Write, Cause::Absent), (5, Access::Write, Cause::Absent)];
    for path in [Path::Speculative, Path::Locked] {
        let report = recorded(ALWAYS, &twice).check(path, |_| ()).unwrap();
        assert_eq!(
            (report.unexplained, report.count_of(DifferenceKind::HugeSupply)),
            (0, 1),
            "{}",
            report.text()
        );
        assert_eq!(report.lacked_huge.iter().copied().collect::<Vec<_>>(), [AT >> 12]);
        assert_eq!((report.performed, report.faulted, report.frames_zeroed), (2, 1, 512));
        assert_eq!((report.resident.peak_kib, report.resident.end_kib), (2048, 2048));
        assert_eq!(report.resident.linux_end_kib, Some(8));
        assert!(report.huge_is_recorded && report.text().contains("supply of free huge frames decided at 1"));
    }
}

#[test]
fn another_setting_is_a_reason_and_no_matter_of_supply() {
    let twice = [(0, Access::Write, Cause::Absent), (5, Access::Write, Cause::Absent)];
    let never = recorded(ALWAYS, &twice).with_huge_pages(HugePolicy::Never).unwrap();
    let report = never.check(Path::Speculative, |_| ()).unwrap();
    assert!(report.differences.is_empty() && !report.huge_is_recorded, "{}", report.text());
    assert_eq!((report.frames_zeroed, report.resident.peak_kib), (2, 8));
    let always = recorded(NEVER, &twice).with_huge_pages(HugePolicy::Always).unwrap();
    let report = always.check(Path::Speculative, |_| ()).unwrap();
    assert_eq!(
        (report.unexplained, report.count_of(DifferenceKind::HugeSetting)),
        (0, 1),
        "{}",
        report.text()
    );
    assert!(report.lacked_huge.is_empty() && report.resident.peak_kib == 2048);
    let report = recorded(NEVER, &twice).check(Path::Speculative, |_| ()).unwrap();
    assert_eq!((report.huge_policy, report.resident.peak_kib), ("never", 8));
}

/// Linux maps the huge zero page at the load, so the store to another page is one to a present page.
#[test]
fn what_linux_met_in_a_huge_page_of_zeros_is_met_here_too() {
    let faults = [
        (0, Access::Read, Cause::Absent),
        (700, Access::Read, Cause::Absent),
        (9, Access::Write, Cause::Protection),
    ];
    let replay = recorded(ALWAYS, &faults);
    let report = replay.check(Path::Speculative, |_| ()).unwrap();
    assert!(report.differences.is_empty(), "{}", report.text());
    assert_eq!((report.frames_zeroed, report.resident.peak_kib), (512, 2048));
    let report = replay.with_huge_pages(HugePolicy::Never).unwrap().check(Path::Speculative, |_| ()).unwrap();
    assert_eq!(
        (report.unexplained, report.count_of(DifferenceKind::HugeSetting)),
        (0, 1),
        "{}",
        report.text()
    );
}

/// mremap moves base pages as such, and a huge page whole where the places are a multiple of its size apart.
/// A huge page of zeros that cannot arrive whole arrives as small ones, which hold no memory.
#[test]
fn what_mremap_moves_is_huge_only_where_linux_leaves_it_so() {
    const HUGE: u64 = 2 << 20;
    let moved_to = |to: u64, first: Access| {
        let events = vec![
            call(Sys::Mmap, [AT, 2 * HUGE, 3, 0x32, u64::MAX, 0], AT as i64),
            fault(AT, first, Cause::Absent),
            call(Sys::Mremap, [AT, 2 * HUGE, 8 * HUGE, 3, to, 0], to as i64),
            // The last page that was moved, and one that the program had not touched.
            fault(to + HUGE - 0x1000, Access::Write, Cause::Absent),
            fault(to + 2 * HUGE - 0x1000, Access::Write, Cause::Absent),
            exit(vec![private(to, 4 * 1024)]),
        ];
        let mut header = header();
        let file = "/sys/kernel/mm/transparent_hugepage/enabled".to_string();
        header.host.settings.push((file, ALWAYS.to_string()));
        Replay::of(header, events).unwrap().check(Path::Speculative, |_| ()).unwrap()
    };
    // By whole huge pages: it is one still, whose base page Linux lacked.
    let report = moved_to(AT + 0x1000 * HUGE, Access::Write);
    assert_eq!(report.count_of(DifferenceKind::HugeSupply), 1, "{}", report.text());
    assert_eq!(report.lacked_huge.len(), 1);
    // By a page more: base pages, of which the last was moved too; as the first fault brought it here, Linux
    // lacked the huge page from the start.
    let report = moved_to(AT + 0x1000 * HUGE + 0x1000, Access::Write);
    assert_eq!(report.count_of(DifferenceKind::HugeSupply), 1, "{}", report.text());
    assert!(report.lacked_huge.is_empty(), "there is none any more");
    let report = moved_to(AT + 0x1000 * HUGE + 0x1000, Access::Read);
    assert_eq!(report.count_of(DifferenceKind::HugeSupply), 1, "a zero page is there: {}", report.text());
    assert_eq!(report.frames_zeroed, 512 + 1, "{}", report.text());
}

fn discarded(first: u64, pages: u64) -> Event {
    call(Sys::Madvise, [AT + (first << 12), pages << 12, 4, 0, 0, 0], 0)
}

/// The same program with these calls and faults.
fn recorded_events(setting: &str, mut events: Vec<Event>) -> Replay {
    events.insert(0, call(Sys::Mmap, [AT, PAGES << 12, 3, 0x32, u64::MAX, 0], AT as i64));
    let mut header = header();
    let file = "/sys/kernel/mm/transparent_hugepage/enabled".to_string();
    header.host.settings.push((file, setting.to_string()));
    Replay::of(header, events).unwrap()
}

fn touch(page: u64, access: Access, cause: Cause) -> Event {
    fault(AT + (page << 12), access, cause)
}

/// Rights of the second page are taken and given, which leaves a table.
fn cut() -> [Event; 2] {
    [1, 3].map(|rights| call(Sys::Mprotect, [AT + 0x1000, 0x1000, rights, 0, 0, 0], 0))
}

#[test]
fn linux_frees_a_table_that_was_emptied_and_maps_a_huge_page_again() {
    let play = |setting, dropped: u64| {
        let mut events = vec![touch(0, Access::Write, Cause::Absent)];
        events.extend(cut());
        events.push(discarded(0, dropped));
        events.push(touch(3, Access::Read, Cause::Absent));
        events.push(touch(9, Access::Write, Cause::Protection));
        recorded_events(setting, events).check(Path::Speculative, |_| ()).unwrap()
    };
    let whole = play(ALWAYS, 512);
    assert_eq!((whole.unexplained, whole.count_of(DifferenceKind::TableFreed)), (0, 1), "{}", whole.text());
    assert_eq!(play(ALWAYS, 511).count_of(DifferenceKind::Cause), 1, "the table holds a page");
    assert_eq!(play(NEVER, 512).count_of(DifferenceKind::Cause), 1, "no huge page was wanted");
}

#[test]
fn pages_that_came_with_a_huge_page_stay_when_it_is_split() {
    let mut events = vec![touch(0, Access::Read, Cause::Absent)];
    events.extend(cut());
    events.extend((2..6).map(|page| touch(page, Access::Write, Cause::Absent)));
    events.extend([discarded(2, 4), touch(2, Access::Write, Cause::Absent)]);
    let always = recorded_events(NEVER, events.clone()).with_huge_pages(HugePolicy::Always).unwrap();
    let report = always.check(Path::Speculative, |_| ()).unwrap();
    assert_eq!(
        (report.unexplained, report.count_of(DifferenceKind::HugeSetting)),
        (0, 4),
        "{}",
        report.text()
    );
    events.push(touch(2, Access::Write, Cause::Absent));
    let always = recorded_events(NEVER, events).with_huge_pages(HugePolicy::Always).unwrap();
    let report = always.check(Path::Speculative, |_| ()).unwrap();
    assert_eq!(report.count_of(DifferenceKind::NoFault), 1, "it came with its own fault: {}", report.text());
}

#[test]
fn pages_that_came_with_linuxs_huge_page_stay_when_it_is_split() {
    let mut events = vec![touch(0, Access::Read, Cause::Absent)];
    events.extend(cut());
    events.extend((2..6).map(|page| touch(page, Access::Write, Cause::Protection)));
    let to = AT - (8 << 20);
    let moved = call(Sys::Mremap, [AT, 0x20_0000, 0x20_0000, 3, to, 0], to as i64);
    events.extend([moved, fault(to + 0x8000, Access::Write, Cause::Protection)]);
    let never = recorded_events(ALWAYS, events).with_huge_pages(HugePolicy::Never).unwrap();
    let report = never.check(Path::Speculative, |_| ()).unwrap();
    assert_eq!(
        (report.unexplained, report.count_of(DifferenceKind::HugeSetting)),
        (0, 5),
        "{}",
        report.text()
    );
}

#[test]
fn a_collapse_that_was_refused_may_have_made_some_of_its_regions_huge() {
    let collapse = |result| call(Sys::Madvise, [AT, PAGES << 12, 25, 0, 0, 0], result);
    let fork = at(PID, Kind::Task(NewTask { tid: PID + 1, flags: 17 }));
    let events = |before| {
        let store = touch(7, Access::Write, Cause::Protection);
        vec![touch(0, Access::Write, Cause::Absent), before, fork.clone(), store]
    };
    let play =
        |before| recorded_events("always [madvise] never", events(before)).check(Path::Speculative, |_| ());
    let report = play(collapse(-22)).unwrap();
    assert_eq!(
        (report.unexplained, report.count_of(DifferenceKind::CollapseRefused)),
        (0, 1),
        "{}",
        report.text()
    );
    assert_eq!(play(cut()[1].clone()).unwrap().count_of(DifferenceKind::Cause), 1, "nothing was collapsed");
}
