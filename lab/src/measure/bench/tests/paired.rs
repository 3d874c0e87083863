use super::*;
use std::cell::{Cell, RefCell};

#[test]
fn the_ratio_is_ours_by_theirs_and_the_first_run_of_each_is_thrown_away() {
    let (mut a, mut b) = (0, 0);
    let ours = || {
        a += 1;
        if a == 1 { 1e9 } else { 30.0 }
    };
    let theirs = || {
        b += 1;
        if b == 1 { 1e9 } else { 20.0 }
    };
    let figure = paired(&Options::full(), "test.ratio", "ns", ours, "theirs", theirs);
    assert_eq!((figure.ratio, figure.aa, figure.aa_spread), (Some(1.5), Some(1.0), Some(0.0)));
    assert_eq!((figure.value, figure.yardstick_value, figure.samples), (30.0, Some(20.0), 31));
    assert_eq!((a, b), (63, 32));
}

#[test]
fn the_sides_take_turns() {
    let order = RefCell::new(String::new());
    let side = |letter| {
        let order = &order;
        move || {
            order.borrow_mut().push(letter);
            1.0
        }
    };
    let options = Options { pairs: 2, ..Options::full() };
    paired(&options, "test.turns", "ns", side('o'), "theirs", side('y'));
    assert_eq!(order.into_inner(), "oyoyooyo");
}

#[test]
fn a_machine_that_slows_down_steadily_changes_no_ratio() {
    let now = Cell::new(1000.0);
    let slower = || {
        now.set(now.get() * 1.01);
        now.get()
    };
    let figure = paired(&Options::full(), "test.drift", "ns", slower, "theirs", slower);
    assert!(figure.low < 1.0 && figure.high > 1.0);
    assert!((figure.ratio.unwrap() - 1.0).abs() < 0.011, "{figure:?}");
}

#[test]
fn a_side_compared_with_itself_alone_has_a_spread() {
    let mut calls = 0.0;
    let restless = || {
        calls += 1.0;
        100.0 + (calls * 7.0) % 5.0
    };
    let figure = alone(&Options::full(), "test.alone", "ns", restless);
    assert!(figure.aa_spread.unwrap() > 0.0);
    assert_eq!((figure.ratio, figure.yardstick), (None, None));
}
