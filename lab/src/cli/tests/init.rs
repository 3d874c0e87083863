use super::*;

#[test]
fn sizes_are_numbers_with_a_unit() {
    assert_eq!([bytes_of("64M"), bytes_of("1t")], [Some(64 << 20), Some(1 << 40)]);
    for wrong in ["", "G", "64", "-1G", "1.5G", "99999999999999999999T", "4294967296T", "64X", "6é"] {
        assert_eq!(bytes_of(wrong), None, "{wrong}");
    }
}
