//! Tests of the list of mutations against the sources, and of what is read of cargo's and the tests' output.

use super::program::{executable, verdict};
use super::*;
use std::collections::BTreeSet;

#[test]
fn every_listed_point_stands_in_the_sources_once_and_every_point_there_is_listed() {
    assert_eq!(check_points(&crate::root()), Ok(()));
}

#[test]
fn every_merged_name_is_listed_once() {
    for name in merged::names() {
        assert_eq!(all().filter(|mutation| mutation.point == name).count(), 1, "{name}");
    }
}

#[test]
fn every_listed_point_has_a_row_in_the_document_which_says_how_many_there_are() {
    let text = fs::read_to_string(crate::root().join(table::FILE)).unwrap();
    let missing: Vec<_> = all().filter(|mutation| !text.contains(&table::cell(mutation.point))).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let count = |is_kind: fn(&Test) -> bool| all().filter(|mutation| is_kind(&mutation.test)).count();
    let kinds = [
        count(|test| matches!(test, Test::Unit(_))),
        count(|test| matches!(test, Test::Model(_))),
        count(|test| matches!(test, Test::Lab(..))),
    ];
    let said = format!(
        "There are {} points: {} that a unit test notices, {} a loom model, {} a test of the lab.",
        kinds.iter().sum::<usize>(),
        kinds[0],
        kinds[1],
        kinds[2]
    );
    assert!(text.contains(&said), "{said}");
}

/// A test that was renamed would notice nothing, and only `cargo xtask mutate` would say so.
#[test]
fn every_named_test_stands_in_the_sources() {
    let text = |folder: &str| {
        let sources = crate::sources(&crate::root().join(folder));
        sources.iter().map(|source| fs::read_to_string(source).unwrap()).collect::<String>()
    };
    let (library, lab) = (text("vm/src"), text("lab/check/tests"));
    for mutation in all() {
        let (sources, name) = match mutation.test {
            Test::Unit(name) | Test::Model(name) => (&library, name),
            Test::Lab(_, name) => (&lab, name),
        };
        let last = name.trim_end_matches(':').rsplit("::").next().unwrap();
        let stands = sources.contains(&format!("fn {last}")) || sources.contains(&format!("mod {last}"));
        assert!(stands, "{}: there is no test {name}", mutation.point);
    }
}

#[test]
fn points_that_are_gone_unlisted_or_named_twice_are_found() {
    let point = |name: &str| points::Point { name: name.to_string(), file: "a.rs".to_string() };
    let differences = |points: &[points::Point], listed| points::differences(points, listed).len();
    assert_eq!(differences(&[point("a"), point("b")], &["b", "a"]), 0);
    assert_eq!(differences(&[point("a")], &["a", "b"]), 1);
    assert_eq!(differences(&[point("a"), point("b")], &["a"]), 1);
    assert_eq!(differences(&[point("a"), point("a")], &["a"]), 1);
    assert_eq!(differences(&[point("a")], &["a", "a"]), 1);
}

#[test]
fn points_in_comments_do_not_count() {
    let source = "    // mutant!(\"a.b\")\n    if mutant!(\"c.d\") || mutant!(\"e.f\") {\n";
    assert_eq!(points::in_source(source).collect::<Vec<_>>(), ["c.d", "e.f"]);
}

#[test]
fn the_built_program_is_found_in_what_cargo_prints() {
    let printed = "   Compiling interleaf\n  Executable unittests src/lib.rs (target/x/deps/interleaf-0a)\n";
    assert_eq!(executable(printed), Some("target/x/deps/interleaf-0a"));
    assert_eq!(executable("error: could not compile"), None);
}

#[test]
fn only_a_failed_test_counts_as_noticed() {
    let failed = "test a::b ... ok\ntest a::c ... FAILED\nerror: test failed";
    assert_eq!(verdict(Some(false), failed), Verdict::Failed("`a::c`".to_string()));
    assert!(matches!(verdict(Some(false), "panicked"), Verdict::Failed(_)));
    assert_eq!(verdict(Some(true), "test result: ok. 2 passed; 0 failed"), Verdict::Passed(2));
    assert_eq!(verdict(Some(true), "test result: ok. 0 passed; 0 failed"), Verdict::Passed(0));
    assert_eq!(verdict(None, ""), Verdict::Hung);
}

#[test]
fn every_quick_mutation_has_its_turn_as_the_sources_change() {
    let quick = quick();
    assert!(quick.len() > 1, "{quick:?}");
    let picks = (0..10_000u32).map(|n| pick(digest_of(0, &n.to_le_bytes()), &quick).point);
    assert_eq!(picks.collect::<BTreeSet<_>>(), quick.iter().map(|m| m.point).collect());
}

#[test]
fn a_row_goes_into_the_table_in_the_order_of_the_list() {
    let row = |point: &str, seconds| format!("| `{point}` | wrong | a test | {seconds} |\n");
    let text = |rows: &str| format!("Before.\n\n{}{rows}\nAfter, `a.b` | c.\n", table::HEAD);
    let with = |rows: &str, new: &str| table::with_row(&text(rows), &["a", "b", "c"], new.trim_end());
    let (a, b, c) = (row("a", 1), row("b", 2), row("c", 3));
    assert_eq!(with("", &b), Some(text(&b)));
    assert_eq!(with(&format!("{a}{c}"), &b), Some(text(&format!("{a}{b}{c}"))));
    let again = row("a", 9);
    assert_eq!(with(&format!("{a}{b}"), &again), Some(text(&format!("{again}{b}"))));
    assert_eq!(with(&row("gone", 5), &c), Some(text(&c)), "a point that is not listed any more");
    assert_eq!(table::with_row("no table", &["a"], &a), None);
}

#[test]
fn the_table_of_the_results_is_found() {
    let text = fs::read_to_string(crate::root().join("docs/design/mutations.md")).unwrap();
    let listed: Vec<&str> = all().map(|mutation| mutation.point).collect();
    let row = table::row(all().next().unwrap(), "a test", 0);
    let after = table::with_row(&text, &listed, &row).unwrap();
    assert_eq!(after.lines().filter(|line| *line == row).count(), 1);
    assert!(after.lines().count() > text.lines().count() - 10, "what follows the table is lost");
}

#[test]
fn unknown_points_are_refused() {
    let two = chosen(&["--only", "gather.flush-skipped,shootdown.wait-skipped"]).unwrap();
    assert_eq!(
        two.iter().map(|m| m.point).collect::<Vec<_>>(),
        ["gather.flush-skipped", "shootdown.wait-skipped"]
    );
    assert!(chosen(&["--only", "gather.nothing"]).is_err() && chosen(&["--only", ""]).is_err());
}
