use super::*;

#[test]
fn what_is_missing_is_named_with_its_reason() {
    assert_eq!(missing_from(0).len(), 2);
    assert!(missing_from(1 << 38)[0].starts_with("CAP_DAC_READ_SEARCH"));
    assert!(missing_from(1 << 2)[0].starts_with("CAP_PERFMON"));
    assert!(missing_from(1 << 38 | 1 << 2).is_empty());
    assert!(missing_from(1 << ADMIN | 1 << DAC_OVERRIDE).is_empty());
}
