//! Tests of the tokens.

use super::*;

fn names(source: &str) -> Vec<String> {
    tokens(source).iter().filter_map(|t| t.name().map(String::from)).collect()
}

#[test]
fn comments_strings_and_characters_hold_no_names() {
    let source = r####"
        // unsafe
        /* unsafe /* unsafe */ unsafe */
        a "unsafe \" unsafe" b r#"unsafe " unsafe"# c b"unsafe" 'u' '\'' d '"' e
    "####;
    assert_eq!(names(source), ["a", "b", "c", "d", "e"]);
}

#[test]
fn lifetimes_and_raw_names_are_names() {
    assert_eq!(names("fn f<'a>(x: &'a str) { r#type }"), ["fn", "f", "a", "x", "a", "str", "type"]);
}

#[test]
fn words_that_begin_like_a_string_are_words() {
    assert_eq!(names("br c b r rb brr#"), ["br", "c", "b", "r", "rb", "brr"]);
}

#[test]
fn lines_are_counted_through_comments_and_strings() {
    let all = tokens("/* \n */ \"\n\" x\ny");
    assert_eq!(all.iter().map(|t| t.line).collect::<Vec<_>>(), [3, 4]);
}

#[test]
fn a_file_that_ends_inside_of_something_ends() {
    for source in ["/* ", "\"", "r#\"", "'", "'\\", "b"] {
        tokens(source);
    }
}
