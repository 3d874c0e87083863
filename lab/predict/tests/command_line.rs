//! The command as a script meets it: statuses, one line on stderr, one object on stdout, the same bytes
//! again.

use std::process::{Command, Output};

fn predict(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_interleaf-predict"));
    command.args(arguments).env("COLUMNS", "80").output().expect("the command starts")
}

const SMALL: &[&str] = &["page_fault1", "--cpus", "1,4"];

#[test]
fn json_is_one_object_the_same_in_every_process() {
    let json = predict(&[SMALL, &["--json"]].concat()).stdout;
    // Another process has its memory elsewhere.
    assert_eq!(json, predict(&[SMALL, &["--json"]].concat()).stdout);
    let value: serde_json::Value = serde_json::from_slice(&json).expect("one JSON object");
    let points = value["points"].as_array().expect("points");
    let places: Vec<_> =
        points.iter().map(|point| (point["path"].as_str(), point["cpus"].as_u64())).collect();
    let path = |path, cpus| (Some(path), Some(cpus));
    let both = [path("speculative", 1), path("speculative", 4), path("locked", 1), path("locked", 4)];
    assert_eq!(places, both);
    for point in points {
        let rate = &point["rate_per_cpu"];
        let (low, value, high) = (rate["low"].as_f64(), rate["value"].as_f64(), rate["high"].as_f64());
        assert!(low <= value && value <= high && low > Some(0.0), "{rate}");
        assert!(point["p50_ns"]["value"].as_f64() <= point["p999_ns"]["value"].as_f64());
    }
    assert!(value["guesses"].as_array().is_some_and(|guesses| !guesses.is_empty()));
}

#[test]
fn text_begins_with_the_conclusion_and_ends_with_the_first_bottleneck() {
    let text = String::from_utf8(predict(SMALL).stdout).unwrap();
    assert!(text.starts_with("page_fault1: the speculative path does "), "{text}");
    let end: String = text.split_whitespace().rev().take(60).collect::<Vec<_>>().join(" ");
    assert!(end.contains("bottleneck") && end.contains("most"), "{text}");
    assert!(text.lines().all(|row| row.chars().count() <= 80), "{text}");
}

#[test]
fn a_chart_has_a_line_for_each_path() {
    let file = std::env::temp_dir().join(format!("interleaf-predict-{}.svg", std::process::id()));
    let output = predict(&[SMALL, &["--svg", file.to_str().unwrap()]].concat());
    let svg = std::fs::read_to_string(&file).expect("it was written");
    std::fs::remove_file(&file).expect("it is there");
    assert!(output.status.success() && svg.matches("polyline").count() == 2);
    assert!(svg.contains(">locked<") && svg.contains(">speculative<"), "{svg}");
}

const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../traces/churn.trace");

#[test]
fn a_trace_runs_on_as_many_cpus_as_it_has_threads_and_copies_multiply_it() {
    let json = |words: &[&str]| -> serde_json::Value {
        let output = predict(&[&[TRACE, "--json", "--path", "speculative"], words].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("one JSON object")
    };
    let alone = json(&[]);
    let of = |value: &serde_json::Value| {
        let points = value["points"].as_array().expect("points").clone();
        let last = points.last().expect("a point").clone();
        (last["cpus"].as_u64().unwrap(), last["operations"].as_u64().unwrap())
    };
    let (threads, operations) = of(&alone);
    let (cpus, doubled) = of(&json(&["--copies", "2"]));
    assert_eq!((cpus, doubled), (2 * threads, 2 * operations));
    let more = (threads + 1).to_string();
    let refused = predict(&[TRACE, "--cpus", &more]);
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert_eq!((refused.status.code(), stderr.lines().count()), (Some(2), 1), "{stderr}");
    assert!(stderr.contains("--copies N runs N processes"), "{stderr}");
}

#[test]
fn what_cannot_be_done_is_said_with_status_2() {
    let cases: [&[&str]; 11] = [
        &["nothing"],
        &["page_fault1", "--cpus", "0"],
        &["page_fault1", "--cpus", "4097"],
        &["page_fault1", "--cpus", "one"],
        &["page_fault1", "--path", "vma"],
        &["page_fault1", "--profile", "nothing"],
        &["page_fault1", "--placement", "nowhere"],
        &["page_fault1", "--copies", "2"],
        &[TRACE, "--copies", "0"],
        &[TRACE, "--path", "linux-mmap-lock"],
        &["page_fault1", "--cpus", "1", "--svg", "/nowhere/chart.svg"],
    ];
    for arguments in cases {
        let output = predict(arguments);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(!stderr.is_empty() && output.stdout.is_empty(), "{arguments:?}");
    }
    let stderr = String::from_utf8(predict(&["nothing"]).stderr).unwrap();
    assert!(stderr.starts_with("interleaf: nothing: no workload, one of page_fault1,"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1);
}
