use super::*;

fn timed(ratio: Median, aa: Median) -> Figure {
    Figure::timed("test.figure", "ns", &[10.0, 11.0, 12.0], aa).against("itself", 10.0, ratio)
}

#[test]
fn a_bar_holds_by_the_bad_end_of_the_interval() {
    let quiet = Median { middle: 1.0, low: 1.0, high: 1.0 };
    let ratio = Median { middle: 0.9, low: 0.8, high: 1.1 };
    assert_eq!(timed(ratio, quiet).with_bar(Bar::AtMost(1.1)).holds, Some(true));
    assert_eq!(timed(ratio, quiet).with_bar(Bar::AtMost(1.0)).holds, Some(false));
    assert_eq!(timed(ratio, quiet).with_bar(Bar::AtLeast(0.9)).holds, Some(false));
}

#[test]
fn a_bar_gives_way_by_what_the_run_could_not_resolve_and_no_more_than_a_tenth() {
    let ratio = Median { middle: 1.0, low: 1.0, high: 1.05 };
    let restless = Median { middle: 1.0, low: 0.95, high: 1.02 };
    let wild = Median { middle: 1.0, low: 0.5, high: 3.0 };
    assert_eq!(timed(ratio, restless).with_bar(Bar::AtMost(1.0)).holds, Some(true));
    assert_eq!(timed(ratio, wild).with_bar(Bar::AtMost(0.9)).holds, Some(false));
}

#[test]
fn counts_are_exact() {
    let fewer = Figure::count("test.fewer", -2.0, "writes");
    assert_eq!(fewer.clone().with_bar(Bar::Exactly(-2.0)).holds, Some(true));
    assert_eq!(fewer.with_bar(Bar::Exactly(-1.0)).holds, Some(false));
    let against = Figure::count_against("test.bytes", 64.0, "bytes", "theirs", 128.0);
    assert_eq!(against.with_bar(Bar::AtMost(0.5)).holds, Some(true));
    let beside = Figure::count_beside("test.beside", 64.0, "instructions", "theirs", 128.0);
    assert_eq!((beside.ratio, beside.with_bar(Bar::AtMost(63.0)).holds), (Some(0.5), Some(false)));
}

#[test]
fn a_run_at_small_size_judges_no_time() {
    let quiet = Median { middle: 1.0, low: 1.0, high: 1.0 };
    let figure = timed(quiet, quiet).unjudged().with_bar(Bar::AtMost(0.1));
    assert_eq!((figure.holds, figure.bar), (None, Some(Bar::AtMost(0.1))));
}
