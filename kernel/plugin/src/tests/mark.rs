//! Tests of the marks.

use super::*;

#[test]
fn marks_survive_their_number_and_only_whole_instructions_are_marks() {
    for mark in [Mark::None, Mark::Call, Mark::Begin, Mark::End] {
        assert_eq!(Mark::from_number(mark.number()), mark);
    }
    assert_eq!((Mark::of(&BEGIN), Mark::of(&END), Mark::of(&SYSCALL)), (Mark::Begin, Mark::End, Mark::Call));
    assert_eq!(Mark::of(&BEGIN[..7]), Mark::None);
    assert_eq!(Mark::of(&[]), Mark::None);
}
