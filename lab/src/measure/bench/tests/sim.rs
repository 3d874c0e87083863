//! How far two ratios are apart.

use super::*;

#[test]
fn two_ratios_are_apart_by_the_same_factor_whichever_is_larger() {
    let median = |low, middle, high| Median { low, middle, high };
    let above = apart(median(3.8, 4.0, 4.4), 2.0);
    let below = apart(median(1.0 / 4.4, 0.25, 1.0 / 3.8), 0.5);
    for (of, wanted) in [(above, below), (above, median(1.9, 2.0, 2.2))] {
        let same = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(same(of.low, wanted.low) && same(of.middle, wanted.middle) && same(of.high, wanted.high));
    }
    assert_eq!(apart(median(1.9, 2.0, 2.2), 2.0), median(1.0, 1.0, 1.1));
}
