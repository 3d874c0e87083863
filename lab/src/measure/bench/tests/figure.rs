use super::*;

fn timed(ratio: Median, aa: Median) -> Figure {
    Figure::timed("test.figure", "ns", &[10.0, 11.0, 12.0], aa).against("itself", 10.0, ratio)
}

#[test]
fn a_bar_that_the_interval_straddles_gets_no_verdict() {
    let quiet = Median { middle: 1.0, low: 1.0, high: 1.0 };
    let ratio = Median { middle: 0.9, low: 0.8, high: 1.1 };
    let verdict = |bar| timed(ratio, quiet).with_bar(bar).verdict;
    assert_eq!(verdict(Bar::AtMost(1.2)), Some(Verdict::Yes));
    assert_eq!(verdict(Bar::AtMost(1.0)), Some(Verdict::CannotTell));
    assert_eq!(verdict(Bar::AtMost(0.7)), Some(Verdict::No));
    assert_eq!(verdict(Bar::AtLeast(0.7)), Some(Verdict::Yes));
    assert_eq!(verdict(Bar::AtLeast(0.9)), Some(Verdict::CannotTell));
    assert_eq!(verdict(Bar::AtLeast(1.2)), Some(Verdict::No));
}

#[test]
fn a_bar_nearer_than_the_run_resolves_gets_no_verdict() {
    let ratio = Median { middle: 0.97, low: 0.96, high: 0.98 };
    let restless = Median { middle: 1.0, low: 0.95, high: 1.02 };
    let wild = Median { middle: 1.0, low: 0.5, high: 3.0 };
    let verdict = |aa, bar| timed(ratio, aa).with_bar(bar).verdict;
    assert_eq!(verdict(restless, Bar::AtMost(1.0)), Some(Verdict::CannotTell));
    assert_eq!(verdict(restless, Bar::AtMost(0.95)), Some(Verdict::CannotTell));
    assert_eq!(verdict(restless, Bar::AtMost(1.1)), Some(Verdict::Yes));
    assert_eq!(verdict(wild, Bar::AtMost(0.5)), Some(Verdict::CannotTell));
    assert_eq!(verdict(wild, Bar::AtMost(5.0)), Some(Verdict::Yes), "a fifth is a fifth in any run");
}

#[test]
fn counts_are_exact() {
    let fewer = Figure::count("test.fewer", -2.0, "writes");
    assert_eq!(fewer.clone().with_bar(Bar::Exactly(-2.0)).verdict, Some(Verdict::Yes));
    assert_eq!(fewer.with_bar(Bar::Exactly(-1.0)).verdict, Some(Verdict::No));
    let against = Figure::count_against("test.bytes", 64.0, "bytes", "theirs", 128.0);
    assert_eq!(against.with_bar(Bar::AtMost(0.5)).verdict, Some(Verdict::Yes));
    let beside = Figure::count_beside("test.beside", 64.0, "instructions", "theirs", 128.0);
    assert_eq!((beside.ratio, beside.with_bar(Bar::AtMost(63.0)).verdict), (Some(0.5), Some(Verdict::No)));
}

#[test]
fn a_count_always_gets_a_verdict() {
    for bar in [Bar::AtMost(2.0), Bar::AtLeast(2.0), Bar::Exactly(2.0)] {
        for value in [-1.0, 0.0, 1.9, 2.0, 2.1] {
            let verdict = Figure::count("test.count", value, "writes").with_bar(bar).verdict;
            assert!(matches!(verdict, Some(Verdict::Yes | Verdict::No)), "{value} {bar}");
        }
    }
}

#[test]
fn a_run_at_small_size_judges_no_time() {
    let quiet = Median { middle: 1.0, low: 1.0, high: 1.0 };
    let figure = timed(quiet, quiet).unjudged().with_bar(Bar::AtMost(0.1));
    assert_eq!((figure.verdict, figure.bar), (None, Some(Bar::AtMost(0.1))));
}
