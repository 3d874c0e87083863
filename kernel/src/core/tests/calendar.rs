//! Tests of reading the clock.

use super::*;

fn at(fields: [u8; 7], format: u8) -> Option<u64> {
    Reading { fields, format }.unix_seconds()
}

#[test]
fn moments_are_those_of_other_calendars() {
    assert_eq!(at([0, 0, 0, 1, 1, 0x70, 0x19], WHOLE_DAY), Some(0));
    assert_eq!(at([0x59, 0x59, 0x23, 0x31, 0x12, 0x99, 0x19], WHOLE_DAY), Some(946_684_799));
    assert_eq!(at([0, 0, 0, 0x29, 2, 0x24, 0x20], WHOLE_DAY), Some(1_709_164_800));
    assert_eq!(at([0, 0, 0, 1, 3, 0x24, 0x20], WHOLE_DAY), Some(1_709_251_200));
    assert_eq!(at([40, 46, 1, 9, 9, 1, 20], WHOLE_DAY | BINARY), Some(1_000_000_000));
    // The same hour on a clock of twice twelve, and noon and midnight.
    assert_eq!(at([0x40, 0x46, 0x01, 9, 9, 1, 0x20], 0), Some(1_000_000_000));
    let noon = at([0, 0, 0x12 | AFTERNOON, 9, 9, 1, 0x20], 0).unwrap();
    assert_eq!(noon - at([0, 0, 0x12, 9, 9, 1, 0x20], 0).unwrap(), 12 * 3600);
}

#[test]
fn what_is_no_date_is_refused() {
    for fields in [[0; 7], [0xff; 7], [0x61, 0, 0, 1, 1, 0x24, 0x20], [0, 0, 0, 1, 0x13, 0x24, 0x20]] {
        assert_eq!(at(fields, WHOLE_DAY), None, "{fields:?}");
    }
    assert_eq!(at([0, 0, 0, 1, 1, 0x69, 0x19], WHOLE_DAY), None);
    assert_eq!(at([0x0a, 0, 0, 1, 1, 0x24, 0x20], WHOLE_DAY), None);
}

#[test]
fn a_clock_without_a_century_is_of_this_one() {
    let known = at([0, 0, 0, 1, 1, 0x24, 0x20], WHOLE_DAY);
    assert!(known.is_some());
    assert_eq!(at([0, 0, 0, 1, 1, 0x24, 0], WHOLE_DAY), known);
}
