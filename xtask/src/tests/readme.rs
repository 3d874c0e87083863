//! Tests of the replacement of output in the README.

use super::*;

#[test]
fn what_stands_between_the_fences_is_replaced_and_nothing_else() {
    let text = "before\n<!-- output of: interleaf x -->\n```text\nold\nold\n```\nafter\n";
    let new = replace_blocks(text, |command| Ok(format!("new of {command}\n"))).unwrap();
    assert_eq!(new, "before\n<!-- output of: interleaf x -->\n```text\nnew of interleaf x\n```\nafter\n");
}

#[test]
fn a_mark_without_its_fence_is_refused() {
    let never = |_: &str| -> Result<String, String> { Ok(String::new()) };
    assert!(replace_blocks("<!-- output of: interleaf x -->\nno fence\n", never).is_err());
    assert!(replace_blocks("<!-- output of: interleaf x -->\n```text\nopen\n", never).is_err());
}
