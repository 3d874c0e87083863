//! Tests of options and of the summary.

use super::*;

#[test]
fn the_line_is_read_or_refused() {
    let options = Options::read(&["--cpus", "1,8", "--boots", "3"]).unwrap();
    assert_eq!((options.boots, options.cpus, options.first), (3, vec![1, 8], 1));
    let options = Options::read(&["--program", "fork_storm", "--rounds", "20"]).unwrap();
    assert_eq!((options.program.as_str(), options.rounds, options.selftest), ("fork_storm", 20, None));
    for wrong in [&["--boots"][..], &["--boots", "0"], &["--cpus", "1,x"], &["--cpus", ""], &["5"]] {
        assert!(Options::read(wrong).is_none(), "{wrong:?}");
    }
}

#[test]
fn a_summary_counts_what_was_clean() {
    assert_eq!(summary(4, 1, &mut [3.0, 1.0, 2.0]), "| 4 | 3 | 2 | 1.0 | 2.0 | 3.0 |");
}
