//! Tests of the rules on short texts.

use super::*;
use crate::layers::tokens::tokens;

fn lines(file: &str, text: &str) -> Vec<usize> {
    source(file, &tokens(text)).iter().map(|v| v.line).collect()
}

#[test]
fn a_floor_may_name_itself_and_what_lies_below() {
    let text = "use crate::{units::{Pfn, Vpn}, machine::Machine, frame::Zone};\nuse crate::sync::Spin;";
    assert!(lines("vm/src/frame/zone.rs", text).is_empty());
}

#[test]
fn names_inside_of_a_lower_floors_braces_are_not_floors() {
    assert!(lines("vm/src/frame/zone.rs", "use crate::units::{space, table};").is_empty());
}

#[test]
fn the_second_path_in_braces_is_seen() {
    assert_eq!(lines("vm/src/frame/zone.rs", "use crate::{\n units,\n space::Fault};"), [3]);
}

#[test]
fn inline_modules_are_as_deep_as_they_look() {
    let text = "mod tests {\n use super::*;\n use super::super::frame;\n}";
    assert_eq!(lines("vm/src/frame.rs", text), [3]);
    assert!(lines("vm/src/frame/buddy.rs", text).is_empty());
}

#[test]
fn a_macro_of_the_crate_is_no_floor() {
    assert!(lines("vm/src/space/entry.rs", "crate::count!(pgfault);").is_empty());
}

#[test]
fn the_library_root_holds_every_floor() {
    assert!(lines("vm/src/lib.rs", "pub use crate::space::AddressSpace;").is_empty());
}
