use super::*;

#[test]
fn every_address_lies_in_a_range_and_they_differ() {
    let mut addresses = Addresses::new(100, 1);
    let drawn: Vec<u64> = addresses.draw(1_000).collect();
    assert!(drawn.iter().all(|a| a % (2 * RANGE_BYTES) < RANGE_BYTES && a / (2 * RANGE_BYTES) < 100));
    assert_ne!(drawn, addresses.draw(1_000).collect::<Vec<_>>());
    assert_ne!(drawn, Addresses::new(100, 2).draw(1_000).collect::<Vec<_>>());
}
