//! Tests of the check of line widths.

use super::*;

#[test]
fn only_lines_beyond_the_last_column_are_found_and_columns_are_characters() {
    let text = format!("{}\n{}\n// {}\n", "a".repeat(110), "b".repeat(111), "ä".repeat(107));
    assert_eq!(wide_lines(&text).collect::<Vec<_>>(), [(2, 111)]);
}
