use super::*;

#[test]
fn every_address_lies_in_a_range_and_they_differ() {
    let drawn = addresses(100, 1);
    assert!(drawn.iter().all(|a| a % (2 * RANGE_BYTES) < RANGE_BYTES && a / (2 * RANGE_BYTES) < 100));
    assert_ne!(drawn, addresses(100, 2));
}
