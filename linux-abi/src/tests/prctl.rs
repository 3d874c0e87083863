//! The flags of `PR_SET_THP_DISABLE`.

use super::*;

#[test]
fn flags_come_only_with_a_refusal_and_only_those_that_there_are() {
    let invalid = Err(Errno::EINVAL);
    assert_eq!(
        [refusal(false, 0), refusal(false, 1), refusal(false, 2)],
        [Ok(HugeRefusal::None), invalid, invalid]
    );
    assert_eq!([refusal(true, 0), refusal(true, 2)], [Ok(HugeRefusal::All), Ok(HugeRefusal::ExceptAdvised)]);
    assert_eq!([1, 3, 4, u64::MAX].map(|flags| refusal(true, flags)), [invalid; 4]);
}
