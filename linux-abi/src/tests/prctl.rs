//! The flags of `PR_SET_THP_DISABLE`.

use super::*;

#[test]
fn flags_come_only_with_a_disable_and_only_those_that_there_are() {
    let invalid = Err(Errno::EINVAL);
    assert_eq!(
        [of_flags(false, 0), of_flags(false, 1), of_flags(false, 2)],
        [Ok(ThpDisable::None), invalid, invalid]
    );
    assert_eq!(
        [of_flags(true, 0), of_flags(true, 2)],
        [Ok(ThpDisable::Completely), Ok(ThpDisable::ExceptAdvised)]
    );
    assert_eq!([1, 3, 4, u64::MAX].map(|flags| of_flags(true, flags)), [invalid; 4]);
}

#[test]
fn thp_disable_is_said_by_one_option_with_two_words() {
    let set = raw::PR_SET_THP_DISABLE;
    assert_eq!(thp_disable(set, [7, 0, 0, 0]), Some(Ok(ThpDisable::Completely)));
    assert_eq!(thp_disable(set, [1, 2, 0, 0]), Some(Ok(ThpDisable::ExceptAdvised)));
    assert_eq!(
        [[1, 0, 1, 0], [1, 0, 0, 1]].map(|words| thp_disable(set, words)),
        [Some(Err(Errno::EINVAL)); 2]
    );
    assert_eq!(thp_disable(raw::PR_GET_THP_DISABLE, [0; 4]), None);
}
