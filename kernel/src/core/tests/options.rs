//! Tests of reading command lines.

use super::*;
use std::vec::Vec;

#[test]
fn words_before_the_dashes_are_the_kernels_and_those_after_the_programs() {
    let options = Options::parse("path=locked start=whole count -- /bin/p a -- b").unwrap();
    assert!(options.locked && options.whole && options.count && options.selftest.is_none());
    assert_eq!(options.argv().collect::<Vec<_>>(), ["/bin/p", "a", "--", "b"]);
    assert_eq!(Options::parse("-- p").unwrap().argv().count(), 1);
}

#[test]
fn nothing_is_a_command_line_too() {
    assert_eq!(Options::parse(""), Ok(Options::default()));
    assert_eq!(Options::parse("count --").unwrap().program, "");
}

#[test]
fn a_word_that_means_nothing_is_named() {
    assert_eq!(Options::parse("count path=fast"), Err("path=fast"));
    assert_eq!(Options::parse("selftest="), Err("selftest="));
    assert_eq!(Options::parse("quick"), Err("quick"));
}
