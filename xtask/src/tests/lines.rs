//! Tests of the reading of the plugin's table.

use super::*;

const TABLE: &str = "windows 100 100\nline 0x0 0xffffffff80000000 100 0 100 0\n\
    line 0x40 0x9000 3 0 0 97\n\
    line 0x80 0x9040 100 0 0 0\nline 0xc0 0x9080 0 100 0 100\n";

#[test]
fn the_plugins_table_is_read_and_lines_that_are_fought_for_are_told() {
    let (windows, lines) = read(TABLE).unwrap();
    assert_eq!(windows, [100, 100]);
    assert_eq!(lines.iter().map(Line::is_fought_for).collect::<Vec<_>>(), [true, true, false, false]);
    let always: Vec<_> = lines.iter().map(|line| line.is_always(windows)).collect();
    assert_eq!(always, [true, false, false, false]);
}

#[test]
fn what_the_plugin_does_not_write_is_refused() {
    for text in ["", "windows 1", "windows 1 x", "windows 1 1\nline 0x0 1 2", "lines 1 1"] {
        assert!(read(text).is_none(), "{text}");
    }
}

#[test]
fn a_line_bears_the_names_that_lie_in_it() {
    let symbols = [(0x1000, "a".into()), (0x1080, "b".into()), (0x1088, "c".into()), (0x2000, "d".into())];
    assert_eq!(name_of(0x1080, &symbols), "b, c");
    assert_eq!(name_of(0x10c0, &symbols), "c");
}
