//! The command as a script meets it: statuses, one line on stderr, one object on stdout; and the same names
//! as `interleaf` says.

use std::process::{Command, Output};

fn check(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_interleaf-check"));
    command.args(arguments).env("COLUMNS", "80").output().expect("the command starts")
}

const SMALL: &[&[&str]] = &[
    &["conflicts", "--states", "1", "--with", "read"],
    &["counts", "--small"],
    &["pairs", "--seeds", "1"],
    &["walkers", "--seeds", "1", "--with", "Scan", "--format", "x86-64,riscv"],
    &["stress", "--rounds", "1", "--tasks", "2"],
    &["fuzz", "--executions", "50", "--only", "parse", "--seed", "3"],
];

#[test]
fn json_is_one_object_and_text_fits_80_columns() {
    for arguments in SMALL {
        let json = check(&[arguments, &["--json"][..]].concat()).stdout;
        let value: serde_json::Value = serde_json::from_slice(&json).expect("one JSON object");
        assert!(value.is_object(), "{arguments:?}");
        let text = String::from_utf8(check(arguments).stdout).unwrap();
        assert!(!text.is_empty(), "{arguments:?}");
        assert!(text.lines().all(|row| row.chars().count() <= 80), "{arguments:?}: {text}");
    }
}

#[test]
fn what_cannot_be_done_is_said_in_one_line_with_status_2() {
    let cases: [&[&str]; 12] = [
        &["conflicts", "--states", "0"],
        &["conflicts", "--states", "1", "--with", "nothing"],
        &["conflicts", "--svg", "/nowhere/matrix.svg"],
        &["counts", "nothing"],
        &["pairs", "--seeds", "0"],
        &["pairs", "--seeds", "2", "--first", "18446744073709551614"],
        &["pairs", "--seeds", "18446744073709551615", "--first", "7"],
        &["pairs", "--seeds", "1", "--with", "nothing"],
        &["walkers", "--seeds", "0"],
        &["walkers", "--seeds", "2", "--first", "18446744073709551614"],
        &["walkers", "--seeds", "1", "--with", "nothing"],
        &["stress", "--rounds", "0"],
    ];
    for arguments in cases {
        let output = check(arguments);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
        assert!(stderr.starts_with("interleaf: ") && output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn interleaf_names_each_check_with_the_same_line() {
    let ours = interleaf_check::command::every();
    let theirs = interleaf_lab::cli::every();
    for (name, about) in &ours {
        assert!(theirs.contains(&(format!("check {name}"), about.clone())), "{name}: {about}");
    }
    assert_eq!(theirs.iter().filter(|(name, _)| name.starts_with("check ")).count(), ours.len());
}

/// `interleaf bench` takes these counts from here, by name.
#[test]
fn each_count_is_a_figure_of_the_benchmark_that_has_its_name() {
    for (name, count) in interleaf_check::counts::COUNTED {
        let of_name = |b: &&interleaf_lab::measure::bench::Benchmark| b.name == *name;
        let benchmark = interleaf_lab::measure::bench::BENCHMARKS.iter().find(of_name).expect("a benchmark");
        let counts = count(&interleaf_lab::measure::bench::Options::small()).expect("nothing is wrong");
        assert_eq!(counts.iter().map(|count| count.name).collect::<Vec<_>>(), benchmark.figures);
    }
}

#[test]
fn a_picture_of_the_matrix_has_a_panel_for_each_distance() {
    let file = std::env::temp_dir().join(format!("interleaf-matrix-{}.svg", std::process::id()));
    let output = check(&["conflicts", "--states", "1", "--with", "mincore", "--svg", file.to_str().unwrap()]);
    let svg = std::fs::read_to_string(&file).expect("it was written");
    std::fs::remove_file(&file).expect("it is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for distance in interleaf_check::conflicts::matrix::Distance::ALL {
        assert!(svg.contains(&format!(">{distance}<")), "{distance}");
    }
    // Each other operation beside mincore twice, by row and by column, and mincore beside itself.
    let others = interleaf_check::conflicts::matrix::Operation::ALL.len() - 1;
    assert_eq!(svg.matches("<rect").count(), 6 * (2 * others + 1));
}
