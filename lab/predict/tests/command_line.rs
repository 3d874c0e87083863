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

/// A file that goes with the test.
struct Written(std::path::PathBuf);

impl Written {
    fn new(name: &str, content: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("interleaf-predict-{}-{name}", std::process::id()));
        std::fs::write(&path, content).expect("it can be written");
        Self(path)
    }

    fn name(&self) -> &str {
        self.0.to_str().expect("a plain name")
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// One line says what is wrong with which word; where the command line itself cannot be read, how to get help
/// follows.
#[test]
fn what_cannot_be_done_is_said_once_with_status_2() {
    let garbage = Written::new("garbage.trace", b"no trace at all");
    let empty = Written::new("empty.trace", b"");
    let cut = Written::new("cut.trace", &std::fs::read(TRACE).expect("it is there")[..1000]);
    let profile = Written::new("profile.txt", b"gap 1 ns guess: short\n");
    let folder = env!("CARGO_MANIFEST_DIR");
    let cases: [(&[&str], &str); 25] = [
        (&["shared_counter", "--path", "locked"], "--path is for faults: shared_counter has none"),
        (&[TRACE, "--path", "linux-mmap-lock"], "--path linux-*: "),
        (&["one_library_page", "--path", "linux-mmap-lock"], "--path linux-*: "),
        (&["page_fault1", "--work", "5"], "--work is for reader_count: page_fault1 has no sections"),
        (&[TRACE, "--work", "5"], "--work is for reader_count: a trace has its own times"),
        (&["reader_count", "--work", "long"], "'long' for '--work <NS>'"),
        (&["nothing"], "nothing: no workload, one of page_fault1,"),
        (&["/nowhere/at.trace"], "/nowhere/at.trace: no workload,"),
        (&[folder], "no workload,"),
        (&[garbage.name()], garbage.name()),
        (&[empty.name()], empty.name()),
        (&[cut.name()], cut.name()),
        (&["page_fault1", "--cpus", "0"], "'0' for '--cpus <N,...>'"),
        (&["page_fault1", "--cpus", "4097"], "'4097' for '--cpus <N,...>'"),
        (&["page_fault1", "--cpus", "one"], "'one' for '--cpus <N,...>'"),
        (&["page_fault1", "--cpus", ""], "'--cpus <N,...>'"),
        (&["page_fault1", "--path", "vma"], "'vma' for '--path <PATH,...>'"),
        (&["page_fault1", "--profile", "nothing"], "--profile nothing: "),
        (&["page_fault1", "--profile", folder], "--profile "),
        (&["page_fault1", "--profile", profile.name()], "is missing"),
        (&["page_fault1", "--placement", "nowhere"], "'nowhere' for '--placement <PLACEMENT>'"),
        (&["page_fault1", "--copies", "2"], "--copies is for traces"),
        (&[TRACE, "--copies", "0"], "'0' for '--copies <N>'"),
        (&["page_fault1", "--seed", "one"], "'one' for '--seed <SEED>'"),
        (&["page_fault1", "--cpus", "1", "--svg", "/nowhere/chart.svg"], "--svg /nowhere/chart.svg: "),
    ];
    for (arguments, said) in cases {
        let output = predict(arguments);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        let first = stderr.lines().next().unwrap_or_default();
        assert!(first.contains(said), "{arguments:?}: {stderr}");
        let is_ours = first.starts_with("interleaf: ") && stderr.lines().count() == 1;
        assert!(is_ours || first.starts_with("error: "), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_chart_that_was_there_stays_where_the_prediction_is_refused() {
    let chart = Written::new("kept.svg", b"an earlier chart");
    let refused = predict(&["page_fault1", "--profile", "nothing", "--svg", chart.name()]);
    assert_eq!(refused.status.code(), Some(2));
    let refused = predict(&[TRACE, "--cpus", "4096", "--svg", chart.name()]);
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(std::fs::read(&chart.0).expect("it is there"), b"an earlier chart");
}

/// A line that all write is handed on every 47 ns, after four additions: the one that asked for it, and three
/// until the next request comes. There are no faults, so one path.
#[test]
fn a_shared_counter_is_one_line_that_is_handed_on() {
    let output = predict(&["shared_counter", "--cpus", "1,16", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let points = json["points"].as_array().expect("points");
    assert_eq!(points.len(), 2);
    let rate = |cpus: u64| {
        let point = points.iter().find(|point| point["cpus"] == cpus);
        point.expect("it was asked for")["rate"]["value"].as_f64().expect("a rate")
    };
    let (one, many) = (1e9 / rate(1), 1e9 / rate(16));
    assert!((6.0..7.5).contains(&one) && (11.0..12.5).contains(&many), "{one} {many} ns");
}

/// One CPU takes as long as its section and two additions; many take turns at the word, twice for each
/// section.
#[test]
fn readers_that_are_counted_wait_for_the_count_once_there_are_enough_of_them() {
    let ns = |cpus: &str| {
        let line = ["reader_count", "--work", "500", "--cpus", cpus, "--json"];
        let json: serde_json::Value =
            serde_json::from_slice(&predict(&line).stdout).expect("one JSON object");
        1e9 / json["points"][0]["rate_per_cpu"]["value"].as_f64().expect("a rate")
    };
    let (one, many) = (ns("1"), ns("20"));
    assert!((505.0..520.0).contains(&one), "{one} ns");
    // 20 CPUs, twice a way of 47 ns each.
    assert!((0.9..1.1).contains(&(many / (20.0 * 2.0 * 47.0))), "{many} ns");
}
