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

#[test]
fn a_refusal_is_said_by_one_option_with_two_words() {
    let set = raw::PR_SET_THP_DISABLE;
    assert_eq!(thp_refusal(set, [7, 0, 0, 0]), Some(Ok(HugeRefusal::All)));
    assert_eq!(thp_refusal(set, [1, 2, 0, 0]), Some(Ok(HugeRefusal::ExceptAdvised)));
    assert_eq!(
        [[1, 0, 1, 0], [1, 0, 0, 1]].map(|words| thp_refusal(set, words)),
        [Some(Err(Errno::EINVAL)); 2]
    );
    assert_eq!(thp_refusal(raw::PR_GET_THP_DISABLE, [0; 4]), None);
}
