//! Calls about huge pages: PR_SET_THP_DISABLE, through fork and exec, and a collapse.

use super::*;
use interleaf_lab::replay::Way;

const AT: u64 = 0x6000_0000_0000;
const HUGE: u64 = 2 << 20;
const PAGE: u64 = 4096;

fn with_settings(settings: &[(&str, &str)], events: Vec<Event>) -> Report {
    let mut header = header();
    let path = |name: &str| format!("/sys/kernel/mm/transparent_hugepage/{name}");
    header.host.settings.extend(settings.iter().map(|(name, text)| (path(name), text.to_string())));
    Replay::of(header, events).unwrap().check(Path::Speculative, |_| ()).unwrap()
}

fn always(events: Vec<Event>) -> Report {
    with_settings(&[("enabled", "[always] madvise never")], events)
}

fn map(len: u64) -> Event {
    call(Sys::Mmap, [AT, len, 3, 0x32, u64::MAX, 0], AT as i64)
}

fn thp_disable(words: [u64; 4], result: i64) -> Event {
    let [disable, flags, third, fourth] = words;
    call(Sys::Prctl, [41, disable, flags, third, fourth, 0], result)
}

fn advise(advice: u64, result: i64) -> Event {
    call(Sys::Madvise, [AT, 2 * HUGE, advice, 0, 0, 0], result)
}

/// Two stores to pages of one huge page, as Linux takes them where it has none.
fn stores() -> [Event; 2] {
    [AT, AT + PAGE].map(|address| fault(address, Access::Write, Cause::Absent))
}

fn row(report: &Report, sys: Sys) -> (Way, u64, u64) {
    let row = report.calls.iter().find(|row| row.call == sys).unwrap();
    (row.way, row.count.times, row.count.agreed)
}

/// The events, and then the end of a program that has the two huge pages mapped.
fn ended(events: impl IntoIterator<Item = Event>, flags: &str) -> Vec<Event> {
    let mapped = mapping(AT, 1024, "rw-p", "", flags);
    events.into_iter().chain([exit(vec![mapped])]).collect()
}

const PLAIN: &str = "rd wr mr mw me ac";
const ADVISED: &str = "rd wr mr mw me ac hg";

#[test]
fn a_program_that_disables_huge_pages_gets_none_though_it_advises_them() {
    let played = |disable: Event| {
        always(ended([disable, map(2 * HUGE), advise(14, 0)].into_iter().chain(stores()), ADVISED))
    };
    let report = played(thp_disable([1, 0, 0, 0], 0));
    assert!(report.differences.is_empty(), "{}", report.text());
    assert_eq!((report.frames_zeroed, row(&report, Sys::Prctl)), (2, (Way::Carried, 1, 1)));
    // Except where they are advised; and what Linux refused has no effect, for whatever reason.
    for (words, result) in [([1, 2, 0, 0], 0), ([1, 0, 0, 0], -22), ([1, 0, 1, 0], -22), ([0, 0, 0, 0], 0)] {
        let report = played(thp_disable(words, result));
        assert_eq!(report.frames_zeroed, 512, "{words:?} {}", report.text());
        assert_eq!((report.unexplained, report.count_of(DifferenceKind::HugeSupply)), (0, 1));
    }
}

#[test]
fn except_advised_disables_where_nothing_is_advised_and_can_be_taken_back() {
    let except = thp_disable([1, 2, 0, 0], 0);
    let report = always(ended([except.clone(), map(2 * HUGE)].into_iter().chain(stores()), PLAIN));
    assert!(report.differences.is_empty() && report.frames_zeroed == 2, "{}", report.text());
    let back = thp_disable([0, 0, 0, 0], 0);
    let report = always(ended([except, back, map(2 * HUGE)].into_iter().chain(stores()), PLAIN));
    assert_eq!((report.frames_zeroed, report.unexplained), (512, 0), "{}", report.text());
}

const CHILD: u32 = 11;

fn of_child(event: Event) -> Event {
    Event { pid: CHILD, tid: CHILD, ..event }
}

fn forks(flags: u64) -> Event {
    self::at(PID, Kind::Task(NewTask { tid: CHILD, flags }))
}

#[test]
fn a_fork_copies_thp_disable_and_an_exec_keeps_it() {
    const CLONE_VM: u64 = 0x100;
    let exec = of_child(self::at(PID, Kind::Exec(Started { image: Arc::new(at_exec()) })));
    let disable = || thp_disable([1, 0, 0, 0], 0);
    let [first, second] = stores().map(of_child);
    let mapped = of_child(map(2 * HUGE));
    let played = |head: Vec<Event>| {
        let report =
            always(head.into_iter().chain([mapped.clone(), first.clone(), second.clone()]).collect());
        assert_eq!(report.unexplained, 0, "{}", report.text());
        report.frames_zeroed
    };
    assert_eq!(played(vec![forks(0)]), 512);
    assert_eq!(played(vec![disable(), forks(0)]), 2);
    assert_eq!(played(vec![disable(), forks(0), exec.clone()]), 2);
    assert_eq!(played(vec![forks(0), of_child(disable()), exec.clone()]), 2);
    // The parent's, after the fork, is its own; before the exec of a child in its memory, it is of both.
    assert_eq!(played(vec![forks(0), disable(), exec.clone()]), 512);
    assert_eq!(played(vec![forks(CLONE_VM), disable(), exec.clone()]), 2);
    assert_eq!(played(vec![forks(CLONE_VM), exec, disable()]), 512);
}

#[test]
fn an_mremap_leaves_huge_pages_disabled_and_a_huge_page_whole() {
    let to = AT + 0x1000 * HUGE;
    let report = always(vec![
        map(2 * HUGE),
        fault(AT, Access::Write, Cause::Absent),
        thp_disable([1, 0, 0, 0], 0),
        call(Sys::Mremap, [AT, 2 * HUGE, 2 * HUGE, 3, to, 0], to as i64),
        // Of the second huge page nothing was touched; as they are disabled it is made of base pages.
        fault(to + HUGE, Access::Write, Cause::Absent),
        fault(to + HUGE + PAGE, Access::Write, Cause::Absent),
        // Of the first all pages have moved.
        fault(to + HUGE - PAGE, Access::Write, Cause::Absent),
        exit(vec![private(to, 1024)]),
    ]);
    assert_eq!(report.count_of(DifferenceKind::HugeSupply), 1, "{}", report.text());
    assert_eq!((report.unexplained, report.differences.len()), (0, 1), "{}", report.text());
}

#[test]
fn a_collapse_that_linux_granted_fills_the_region_whatever_the_policy() {
    let never = [("enabled", "always madvise [never]")];
    let events = |result: i64| {
        let second = fault(AT + HUGE, Access::Write, Cause::Absent);
        let store = fault(AT, Access::Write, Cause::Absent);
        ended([map(2 * HUGE), store, second, advise(25, result)], PLAIN)
    };
    let report = with_settings(&never, events(0));
    assert!(report.differences.is_empty(), "{}", report.text());
    assert_eq!((report.resident.end_kib, row(&report, Sys::Madvise)), (4096, (Way::Imposed, 1, 1)));
    let report = with_settings(&never, events(-12));
    assert_eq!((report.resident.end_kib, row(&report, Sys::Madvise)), (8, (Way::Left, 1, 1)));
    // A region without memory cannot be collapsed: the answer is one that Linux does not give.
    let report = with_settings(&never, ended([map(2 * HUGE), advise(25, 0)], PLAIN));
    assert_eq!(report.count_of(DifferenceKind::Answer), 1, "{}", report.text());
}

#[test]
fn a_collapse_of_shared_memory_is_a_difference_with_a_reason() {
    let shared = call(Sys::Mmap, [AT, 2 * HUGE, 3, 0x31, u64::MAX, 0], AT as i64);
    let store = fault(AT, Access::Write, Cause::Absent);
    let mapped = mapping(AT, 1024, "rw-s", "/dev/zero (deleted)", "rd wr sh mr mw me ms");
    let report = with_settings(&[], vec![shared, store, advise(25, 0), exit(vec![mapped])]);
    assert_eq!(report.count_of(DifferenceKind::SharedCollapse), 1, "{}", report.text());
    assert_eq!((report.unexplained, row(&report, Sys::Madvise)), (0, (Way::Imposed, 1, 0)));
}
