//! Huge pages: random sequences, rule by rule, and the library beside both.

use interleaf::space::Path;
use interleaf::table::format::X86_64;
use interleaf::vma::{HugePolicy, MthpPolicies};
use interleaf_check::calls::{
    Call, CallResult, Errno, HUGE_BYTES, HugeLeaf, MapFlags, Outcome, PAGE, Prot, System, advice,
};
use interleaf_check::huge::host::host_policy;
use interleaf_check::huge::{Beside, BesideCounts, Kind, huge_sequence, library_setting};
use interleaf_check::library::Library;
use interleaf_check::model::Model;
use interleaf_check::oracle::Oracle;
use interleaf_check::setting::Setting;
use std::io::Write;

const R: Prot = Prot::READ;
const RW: Prot = Prot::READ.union(Prot::WRITE);

/// A number from the environment: `SEED=7 SEEDS=1` plays the one sequence of seed 7.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The host's policy, unless it is never. Its setting is not changed: other programs have it too.
fn policy() -> Option<HugePolicy> {
    host_policy().filter(|policy| *policy != HugePolicy::Never)
}

/// Plays sequences with the host's policy; says so where the host has none, or has set it otherwise.
fn play(kind: Kind, sequences: u64) {
    let beside = policy().map(|policy| Beside::new(policy, MthpPolicies::NEVER));
    let Some(Ok(mut beside)) = beside else {
        let why = beside.and_then(Result::err).map_or("no huge pages".into(), |why| why.to_string());
        writeln!(std::io::stderr(), "not run: {why}").expect("standard error is open");
        return;
    };
    let (first, mut counts) = (number("SEED", 0), BesideCounts::default());
    for seed in first..first + number("SEEDS", sequences) {
        beside.play(kind, seed, 24, &mut counts).unwrap_or_else(|difference| panic!("{difference}"));
    }
    assert!(counts.supply_percent() < 10.0, "{counts:?}");
}

#[test]
fn linux_and_the_library_agree_on_huge_pages_but_for_the_rules_that_are_named() {
    play(Kind::Calls, 400);
}

#[test]
fn linux_and_the_library_agree_on_processes_with_huge_pages() {
    play(Kind::Processes, 12);
}

/// Address of a page of the arena.
fn at(page: u64) -> u64 {
    Setting::default().huge_arena().start + page * PAGE
}

const HUGE: u64 = HUGE_BYTES / PAGE;

/// The whole arena, where huge pages may be.
fn arena() -> [Call; 2] {
    let flags = MapFlags::PRIVATE | MapFlags::ANONYMOUS | MapFlags::FIXED;
    let whole = 3 * HUGE_BYTES;
    [
        Call::Mmap { hint: at(0), len: whole, prot: RW, flags },
        Call::Madvise { addr: at(0), len: whole, advice: advice::HUGEPAGE },
    ]
}

fn read(page: u64) -> Call {
    Call::Read { addr: at(page) }
}

fn write(page: u64) -> Call {
    Call::Write { addr: at(page), value: 7 }
}

fn advise(page: u64, pages: u64, advice: i32) -> Call {
    Call::Madvise { addr: at(page), len: pages * PAGE, advice }
}

fn map_over(page: u64, pages: u64) -> Call {
    let flags = MapFlags::PRIVATE | MapFlags::ANONYMOUS | MapFlags::FIXED;
    Call::Mmap { hint: at(page), len: pages * PAGE, prot: RW, flags }
}

/// What the library makes of calls in the arena: as the model says, and, where the host can be asked, Linux
/// too, each with its own rules.
fn outcome(calls: &[Call]) -> Outcome {
    let calls = [&arena()[..], calls].concat();
    let policy = policy().unwrap_or(HugePolicy::Madvise);
    if let Ok(mut linux) = Oracle::with_huge_pages(policy, MthpPolicies::NEVER) {
        let said = Model::new(linux.setting().clone()).run(&calls);
        assert_eq!(System::run(&mut linux, &calls), said, "Linux says the left");
    }
    let setting = library_setting(policy);
    let said = Model::new(setting.clone()).run(&calls);
    let mut library = Library::<X86_64>::new(setting, Path::Speculative).expect("a machine");
    assert_eq!(library.run(&calls), said, "the library says the left");
    said
}

fn leaves(calls: &[Call]) -> Vec<HugeLeaf> {
    outcome(calls).huge.leaves.iter().map(|&(_, leaf)| leaf).collect()
}

fn last(calls: &[Call]) -> CallResult {
    outcome(calls).answers.pop().expect("there are calls")
}

#[test]
fn what_is_mapped_over_whole_regions_can_be_huge_at_once() {
    let base = [write(0), advise(0, HUGE, advice::NOHUGEPAGE), advise(0, HUGE, advice::DONTNEED), write(9)];
    let over = [map_over(0, HUGE), advise(0, HUGE, advice::HUGEPAGE), write(3)];
    assert_eq!(leaves(&[&base[..], &over].concat()), [HugeLeaf::Own]);
    let part = [map_over(0, HUGE - 1), advise(0, HUGE - 1, advice::HUGEPAGE), write(3)];
    assert_eq!(leaves(&[&base[..], &part].concat()), [], "the last page keeps the table");
}

#[test]
fn a_region_of_the_huge_zero_page_is_collapsed_already() {
    let collapse = advise(0, HUGE, advice::COLLAPSE);
    assert_eq!(last(&[read(0), collapse]), CallResult::Value(0));
    assert_eq!(leaves(&[read(0), collapse]), [HugeLeaf::Zero]);
}

#[test]
fn memory_that_may_not_be_accessed_is_collapsed() {
    let base = [write(0), Call::Mprotect { addr: at(5), len: PAGE, prot: R }, write(7)];
    let none = Call::Mprotect { addr: at(0), len: HUGE_BYTES, prot: Prot::empty() };
    let collapse = advise(0, HUGE, advice::COLLAPSE);
    assert_eq!(leaves(&[&base[..], &[none, collapse]].concat()), [HugeLeaf::Own]);
}

#[test]
fn free_leaves_the_huge_zero_page_whole() {
    assert_eq!(leaves(&[read(0), advise(0, 5, advice::FREE)]), [HugeLeaf::Zero]);
    assert_eq!(leaves(&[read(0), advise(0, 5, advice::FREE), write(2)]), [HugeLeaf::Own]);
    assert_eq!(leaves(&[write(0), advise(0, 5, advice::FREE)]), []);
}

#[test]
fn collapse_checks_the_range_then_each_mapping() {
    let collapse = |page, pages| advise(page, pages, advice::COLLAPSE);
    let unaligned = Call::Madvise { addr: at(0) + 1, len: PAGE, advice: advice::COLLAPSE };
    assert_eq!(last(&[unaligned]), CallResult::Error(Errno::EINVAL));
    assert_eq!(last(&[collapse(0, 0)]), CallResult::Value(0));
    assert_eq!(last(&[collapse(0, HUGE)]), CallResult::Error(Errno::EINVAL), "nothing was touched");
    assert_eq!(last(&[write(0), collapse(1, 5)]), CallResult::Error(Errno::EINVAL), "inside of a region");
    assert_eq!(last(&[write(0), collapse(0, 5)]), CallResult::Value(0), "at the border of one");
    let hole = Call::Munmap { addr: at(HUGE), len: HUGE_BYTES };
    assert_eq!(
        last(&[write(0), write(2 * HUGE), hole, collapse(0, 3 * HUGE)]),
        CallResult::Error(Errno::ENOMEM)
    );
    let refused = advise(0, HUGE, advice::NOHUGEPAGE);
    assert_eq!(last(&[write(0), refused, collapse(0, HUGE)]), CallResult::Error(Errno::EINVAL));
}

#[test]
fn huge_sequences_are_reproducible_admitted_and_rich() {
    let setting = library_setting(HugePolicy::Always);
    let (mut own, mut zero, mut collapsed) = (0, 0, 0);
    for seed in 0..200 {
        let calls = huge_sequence(seed, 24, &setting);
        assert_eq!(calls, huge_sequence(seed, 24, &setting));
        assert!(calls.iter().all(|call| setting.admits(call)));
        let outcome = Model::new(setting.clone()).run(&calls);
        own += outcome.huge.leaves.iter().filter(|(_, leaf)| *leaf == HugeLeaf::Own).count();
        zero += outcome.huge.leaves.iter().filter(|(_, leaf)| *leaf == HugeLeaf::Zero).count();
        let is_collapse = |call: &&Call| matches!(call, Call::Madvise { advice: advice::COLLAPSE, .. });
        collapsed += calls.iter().filter(is_collapse).count();
    }
    assert!(
        own > 50 && zero > 20 && collapsed > 50,
        "{own} huge pages, {zero} of zeros, {collapsed} collapses"
    );
}
