//! Tests of reading command lines.

use super::*;
use std::format;
use std::string::String;
use std::vec::Vec;

/// The program's arguments, as text.
fn words(options: &Options<'_>) -> Vec<String> {
    let text = |argument: Argument<'_>| {
        let mut bytes: Vec<u8> = argument.bytes_backwards().collect();
        bytes.reverse();
        String::from_utf8(bytes).unwrap()
    };
    options.argv().map(text).collect()
}

#[test]
fn words_before_the_dashes_are_the_kernels_and_those_after_the_programs() {
    let options = Options::parse("path=locked start=whole count -- /bin/p a -- b").unwrap();
    assert!(options.path == Path::Locked && options.whole && options.count && options.selftest.is_none());
    assert_eq!(words(&options), ["/bin/p", "a", "--", "b"]);
    assert_eq!(Options::parse("-- p").unwrap().argv().count(), 1);
    for path in Path::ALL {
        let line = format!("path={}", path.name());
        assert_eq!(Options::parse(&line).unwrap().path, path);
    }
}

#[test]
fn huge_pages_are_never_used_but_where_the_line_says_so() {
    let policies = ["", "huge=never", "huge=madvise", "huge=always", "huge=always huge=never"]
        .map(|line| Options::parse(line).unwrap().huge);
    use HugePolicy::*;
    assert_eq!(policies, [Never, Never, Madvise, Always, Never]);
    assert_eq!(Options::parse("huge=sometimes"), Err("huge=sometimes"));
}

#[test]
fn zeros_are_those_of_the_huge_zero_page_but_where_the_line_says_so() {
    let kinds = ["", "zero_page=huge", "zero_page=virtual", "zero_page=small", "zero_page=none"]
        .map(|line| Options::parse(line).unwrap().zero_page);
    use ZeroPagePolicy::*;
    assert_eq!(kinds, [Huge, Huge, Virtual, Small, None]);
    assert_eq!(Options::parse("zero_page=tiny"), Err("zero_page=tiny"));
}

#[test]
fn the_reserved_pool_is_empty_but_where_the_line_says_so() {
    let pool = |line| Options::parse(line).map(|options| options.huge_pool);
    assert_eq!((pool("count"), pool("hugepages=12 count")), (Ok(0), Ok(12)));
    for wrong in ["hugepages=", "hugepages=2M", "hugepages=-1", "hugepages"] {
        assert_eq!(pool(wrong), Err(wrong));
    }
}

#[test]
fn base_pages_are_looked_for_as_linux_does_but_where_the_line_says_otherwise() {
    let scan = |line| Options::parse(line).map(|options| (options.scan.pages, options.scan.sleep_ms));
    assert_eq!(scan("count"), Ok((4096, 10_000)));
    assert_eq!(scan("scan_sleep_millisecs=20 pages_to_scan=512"), Ok((512, 20)));
    for wrong in ["pages_to_scan=", "pages_to_scan=-1", "scan_sleep_millisecs=soon"] {
        assert_eq!(scan(wrong), Err(wrong));
    }
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

#[test]
fn any_byte_of_an_argument_can_be_written() {
    let options = Options::parse("-- % two%20words 100%25 a%09b %c3%a4 a%2 %zz %%20").unwrap();
    assert_eq!(words(&options), ["", "two words", "100%", "a\tb", "ä", "a%2", "%zz", "% "]);
}
