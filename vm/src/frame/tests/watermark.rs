//! Watermarks.

use super::*;

#[test]
fn marks_grow_with_the_root_of_the_zone() {
    assert_eq!(Watermark::for_frames(64).min, 1);
    assert_eq!(Watermark::for_frames(1 << 18).min, 1024);
    assert_eq!(Watermark::for_frames(1 << 40).min, 64 << 10);
    let mark = Watermark::for_frames(1 << 18);
    assert!(mark.min < mark.low && mark.low < mark.high);
}

#[test]
fn only_the_reserve_goes_below_min() {
    let mark = Watermark { min: 10, low: 12, high: 15 };
    let allowed = |priority| mark.allows(11, priority);
    let all = [Priority::NoWait, Priority::Normal, Priority::Reserve].map(allowed);
    assert_eq!(all, [0, 1, 11]);
}
