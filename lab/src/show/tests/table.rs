use super::*;

#[test]
fn numbers_have_three_digits_that_mean_something() {
    let cases =
        [(0.0, "0"), (2.0, "2"), (0.7512, "0.751"), (12.34, "12.3"), (123.4, "123"), (0.0123, "0.0123")];
    for (value, text) in cases {
        assert_eq!(number(value), text);
    }
    assert_eq!(number(1_234_567.2), "1 234 567");
    assert_eq!(number(4.2e9), "4.20e9");
    assert_eq!(number(-2.0), "-2");
}

#[test]
fn groups_are_of_three_from_the_right() {
    assert_eq!([1, 12, 123, 1234, 123_456].map(grouped), ["1", "12", "123", "1 234", "123 456"]);
    assert_eq!(grouped(i64::MIN), "-9 223 372 036 854 775 808");
}

#[test]
fn a_column_in_which_nothing_stands_is_left_out() {
    let rows = vec![vec!["1".into(), String::new(), "x".into()], vec!["2".into(), String::new(), "y".into()]];
    let text = of_used_columns(&["a", "empty", "c"], rows);
    assert!(!text.contains("empty") && text.contains('y'), "{text}");
}

#[test]
fn a_table_has_a_line_for_the_header_and_for_each_row() {
    let text = of(&["a", "b"], [vec!["1".into(), "long cell".into()], vec!["22".into(), "c".into()]]);
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(text.lines().nth(1).unwrap().contains("long cell"));
}

#[test]
fn a_table_is_broken_to_the_width_and_loses_nothing() {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["figure", "value", "yardstick", "interval"]);
    let cells =
        ["paths.share_page_fault1", "1 016 923", "11 546 under the space's lock, shared", "0.9 .. 1.1"];
    (0..3).for_each(|_| {
        table.add_row(cells);
    });
    let natural = fitted(table.clone(), None);
    assert_eq!(natural.lines().count(), 4);
    assert_eq!(fitted(table.clone(), Some(200)), natural, "what fits is as it was");
    let narrow = fitted(table, Some(60));
    assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
    let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<Vec<_>>().len();
    assert_eq!(letters(&narrow), letters(&natural));
}
