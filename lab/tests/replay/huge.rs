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
    // By a page more: base pages, of which the last was moved too, so Linux would have no reason to fault.
    let report = moved_to(AT + 0x1000 * HUGE + 0x1000, Access::Write);
    assert_eq!(report.count_of(DifferenceKind::HugeSupply), 0, "{}", report.text());
    assert_eq!(report.count_of(DifferenceKind::NoFault), 1, "{}", report.text());
    let report = moved_to(AT + 0x1000 * HUGE + 0x1000, Access::Read);
    assert_eq!(report.count_of(DifferenceKind::Cause), 1, "a zero page is there: {}", report.text());
    assert_eq!(report.frames_zeroed, 512 + 1, "{}", report.text());
}
