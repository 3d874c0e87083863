//! The recorded settings of mTHP sizes, and of shared memory.

use super::*;
use interleaf::vma::HugePolicy;

const AT: u64 = 0x6000_0000_0000;
const PAGE: u64 = 4096;
const PAGES: u64 = 1024;

fn recorded(settings: &[(&str, &str)], flags: u64, faults: &[u64]) -> Replay {
    let mut events = vec![call(Sys::Mmap, [AT, PAGES * PAGE, 3, 0x10 | flags, u64::MAX, 0], AT as i64)];
    events.extend(faults.iter().map(|page| fault(AT + page * PAGE, Access::Write, Cause::Absent)));
    let mut header = header();
    let path = |name: &str| format!("/sys/kernel/mm/transparent_hugepage/{name}");
    header.host.settings.extend(settings.iter().map(|(name, text)| (path(name), text.to_string())));
    Replay::of(header, events).unwrap()
}

const PRIVATE: u64 = 0x22;
const SHARED: u64 = 0x21;

fn check(replay: &Replay) -> Report {
    replay.check(Path::Speculative, |_| ()).unwrap()
}

#[test]
fn a_size_between_is_used_as_recorded_and_its_supply_is_a_reason() {
    let size = |text| {
        [
            ("enabled", "[always] inherit madvise never"),
            ("hugepages-64kB/enabled", text),
            ("hugepages-2048kB/enabled", "always inherit madvise [never]"),
        ]
    };
    // Linux took one fault for the first block, and two for the next.
    let faults = [1, 16, 17];
    for text in ["[always] inherit madvise never", "always [inherit] madvise never"] {
        let report = check(&recorded(&size(text), PRIVATE, &faults));
        assert_eq!(report.frames_zeroed, 32, "{}", report.text());
        assert_eq!((report.unexplained, report.count_of(DifferenceKind::HugeSupply)), (0, 1));
        assert_eq!(report.huge_sizes, ["64 KiB always"]);
        assert!(report.text().contains("mTHP sizes: 64 KiB always"), "{}", report.text());
    }
    for text in ["always inherit madvise [never]", "always inherit [madvise] never"] {
        let report = check(&recorded(&size(text), PRIVATE, &faults));
        assert!(report.differences.is_empty() && report.frames_zeroed == 3, "{}", report.text());
    }
}

#[test]
fn another_policy_of_huge_pages_is_that_of_the_sizes_that_inherit() {
    let settings = |text| [("enabled", "always [madvise] never"), ("hugepages-64kB/enabled", text)];
    let played = |text, policy| {
        let replay = recorded(&settings(text), PRIVATE, &[1]).with_huge_pages(policy).unwrap();
        check(&replay).frames_zeroed
    };
    let inherit = "always [inherit] madvise never";
    assert_eq!(played(inherit, HugePolicy::Never), 1);
    assert_eq!(played(inherit, HugePolicy::Always), 512);
    assert_eq!(played("[always] inherit madvise never", HugePolicy::Never), 16);
}

#[test]
fn shared_memory_has_huge_pages_as_recorded() {
    let shared = |text| check(&recorded(&[("shmem_enabled", text)], SHARED, &[1, 2]));
    let report = shared("[always] within_size advise never deny force");
    assert_eq!(report.frames_zeroed, 512, "{}", report.text());
    assert_eq!((report.unexplained, report.count_of(DifferenceKind::HugeSupply)), (0, 1));
    for text in
        ["always within_size advise [never] deny force", "always within_size [advise] never deny force"]
    {
        let report = shared(text);
        assert!(report.differences.is_empty() && report.frames_zeroed == 2, "{}", report.text());
        assert!(report.huge.settings_without_policy.is_empty());
    }
    let report = shared("always [within_size] advise never deny force");
    assert_eq!((report.frames_zeroed, report.huge.settings_without_policy.len()), (2, 1));
    assert!(report.text().contains("shmem_enabled is always [within_size]"), "{}", report.text());
}
