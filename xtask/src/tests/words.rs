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
