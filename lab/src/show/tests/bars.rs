use super::*;

#[test]
fn the_longest_bar_fills_the_width_and_half_of_it_half() {
    let text = of(&[("one".into(), 8.0), ("half".into(), 4.0), ("none".into(), 0.0)], "ns", 4);
    assert_eq!(text, "one   ████  8 ns\nhalf  ██    4 ns\nnone        0 ns\n");
}

#[test]
fn an_eighth_can_be_seen() {
    assert_eq!((bar(1), bar(9)), ("▏".to_string(), "█▏".to_string()));
}
