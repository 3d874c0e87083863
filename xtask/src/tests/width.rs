//! Tests of the check of line widths.

use super::*;

#[test]
fn only_lines_beyond_the_last_column_are_found_and_columns_are_characters() {
    let text = format!("{}\n{}\n// {}\n", "a".repeat(110), "b".repeat(111), "ä".repeat(107));
    assert_eq!(in_source(&text), [(2, 111)]);
}

#[test]
fn of_documents_rows_and_what_is_fenced_may_be_wider() {
    let [wide, row] = ["a".repeat(121), format!("| {} |", "b".repeat(300))];
    let text = format!("{}\n{wide}\n{row}\n```text\n{wide}\n```\n{wide}\n", "c".repeat(120));
    assert_eq!(in_document(&text), [(2, 121), (7, 121)]);
    assert_eq!(in_readme(&text), [(2, 121), (3, 304), (7, 121)]);
}
