//! Tests of the check of type names.

use super::*;

fn declared(file: &str, text: &str) -> Vec<Declared> {
    declarations(file, &tokens(text))
}

#[test]
fn only_declarations_count_and_not_what_is_named_otherwise() {
    let text = "struct Tray;\nlet round = Round;\nenum A { Post }\n// struct Board\n";
    assert_eq!(replaced(&declared("vm/src/a.rs", text)), ["vm/src/a.rs:1: Tray has another name now"]);
}

#[test]
fn a_name_that_the_library_declares_twice_is_found_and_its_tests_may() {
    let text = "struct Walk;\ntrait Once {}";
    let mut all = declared("vm/src/a.rs", text);
    all.extend(declared("vm/src/tests/b.rs", text));
    all.extend(declared("lab/src/c.rs", text));
    assert_eq!(ambiguous(&all), [""; 0]);
    all.extend(declared("vm/src/d.rs", "enum Walk {}"));
    assert_eq!(ambiguous(&all), ["vm/src/a.rs:1 vm/src/d.rs:1: several types are named Walk"]);
}

#[test]
fn a_comment_that_names_a_person_is_found_and_a_name_in_backticks_may() {
    let text = "the caller waits\nuser `nobody`, whose file\nNobody else, or who comes\nWhoever: x\n";
    let text = format!("{text}```\nwho\n```\n");
    assert_eq!(persons("a.md", &text), ["a.md:3: Nobody", "a.md:4: Whoever"]);
    let comments = crate::comments_of("let nobody = 1; // a thread\nnobody();\n//! none\n");
    assert_eq!(comments, "// a thread\n\n//! none\n");
}
