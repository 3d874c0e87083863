//! The command as a script meets it: statuses, one line on stderr, one object on stdout.

use std::process::{Command, Output, Stdio};

fn interleaf(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_interleaf")).args(arguments).output().expect("the command starts")
}

fn one_object(arguments: &[&str]) -> serde_json::Value {
    let output = interleaf(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect("stdout is one JSON object");
    assert!(value.is_object(), "{arguments:?}");
    value
}

#[test]
fn json_is_one_object_with_its_names() {
    assert!(one_object(&["list", "--json"])["benchmarks"].is_array());
    assert!(one_object(&["doctor", "--json"])["findings"].is_array());
    let tour = one_object(&["--small", "--json", "--seed", "7"]);
    assert_eq!(tour["seed"], 7);
    assert!(tour["setting"]["cpus"].is_number());
    assert!(tour["sections"][0]["figures"].is_array());
}

/// Every subcommand that can run anywhere, small; `boot` and `record` have tests of their own.
fn every_small_command() -> Vec<Vec<String>> {
    let traces = format!("{}/traces", env!("CARGO_MANIFEST_DIR"));
    let lines = [
        "list".to_string(),
        "bench list".to_string(),
        "bench machine --small".to_string(),
        "bench sync --small".to_string(),
        "doctor".to_string(),
        "tour --small".to_string(),
        "fault mapper --rounds 1 --mib 1 --cpus 1".to_string(),
        "init --memory 256M --threads 1 --runs 2".to_string(),
        format!("replay {traces}/sqlite.trace {traces}/churn.trace"),
        format!("trace info {traces}/python.trace"),
    ];
    lines.iter().map(|line| line.split(' ').map(str::to_string).collect()).collect()
}

#[test]
fn json_is_one_object_everywhere_or_lines_where_help_says_so() {
    // The tour's is looked at above.
    for line in every_small_command().iter().filter(|line| line[0] != "tour") {
        let mut arguments: Vec<&str> = line.iter().map(String::as_str).collect();
        arguments.push("--json");
        one_object(&arguments);
    }
    let help = interleaf(&["trace", "--help"]);
    assert!(String::from_utf8_lossy(&help.stdout).contains("JSON lines"));
    let trace = format!("{}/traces/sqlite.trace", env!("CARGO_MANIFEST_DIR"));
    let dump = interleaf(&["trace", "dump", &trace, "--json"]);
    for line in String::from_utf8(dump.stdout).unwrap().lines() {
        assert!(serde_json::from_str::<serde_json::Value>(line).unwrap().is_object());
    }
}

#[test]
fn text_fits_a_terminal_of_80_columns() {
    for line in every_small_command() {
        let mut command = Command::new(env!("CARGO_BIN_EXE_interleaf"));
        let output = command.args(&line).env("COLUMNS", "80").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(!text.is_empty(), "{line:?}");
        for row in text.lines() {
            // A path or a name may be longer than any terminal.
            let longest_word = row.split_whitespace().map(|word| word.chars().count()).max().unwrap_or(0);
            assert!(row.chars().count() <= 80 || longest_word > 70, "{line:?}: {row}");
        }
    }
}

#[test]
fn a_run_of_faults_says_where_each_fault_went() {
    let report = one_object(&["fault", "mapper", "--rounds", "1", "--mib", "1", "--cpus", "1", "--json"]);
    let runs = report["runs"].as_array().unwrap();
    let paths: Vec<_> = runs.iter().map(|run| run["path"].clone()).collect();
    assert_eq!(paths, ["locked", "speculative"]);
    for run in runs {
        let count = |name: &str| run[name].as_u64().unwrap_or_else(|| panic!("{name} is missing"));
        let reasons = run["fell_back"].as_object().unwrap();
        assert!(
            reasons.len() == interleaf::space::Fallback::ALL.len()
                && reasons.keys().all(|reason| reason.starts_with("spf_") || reason == "vma_lock_abort")
        );
        let fell_back: u64 = reasons.values().filter_map(serde_json::Value::as_u64).sum();
        assert_eq!(count("speculated") + count("locked") + fell_back + count("errors"), count("faults"));
        assert!(run["latency_ns"]["p99"].is_number() && run["interrupts"].is_number());
    }
}

#[test]
fn a_teardown_says_what_each_way_took_and_interrupted() {
    let report = one_object(&["teardown", "--memory", "64M", "--runs", "1", "--json"]);
    assert_eq!(report["entries"].as_u64(), Some(32));
    let rows = report["rows"].as_array().unwrap();
    let interrupts: Vec<_> = rows.iter().map(|row| row["interrupts"].as_u64().unwrap()).collect();
    assert_eq!(interrupts[..4], [0, 32, 0, 0]);
    assert!(rows.iter().all(|row| row["ms"].is_number() && row["longest_walk_us"].is_number()));
}

#[test]
fn what_zeros_cost_is_said_for_each_kind_of_page() {
    let report = one_object(&["zero", "--memory", "16M", "--touched", "8M", "--rounds", "1", "--json"]);
    let rows = |part: &str| report[part].as_array().unwrap().clone();
    assert_eq!((rows("host").len(), rows("model").len()), (6, 8));
    let library = rows("library");
    let find = |kind: &str| library.iter().find(|row| row["zero_page"] == kind).unwrap().clone();
    assert_eq!((find("huge")["faults"].as_u64(), find("small")["faults"].as_u64()), (Some(4), Some(2048)));
    assert_eq!(find("none")["resident_bytes"].as_u64(), Some(8 << 20));
    for kind in ["huge", "virtual", "small", "none"] {
        assert!(library.iter().any(|row| row["zero_page"] == kind), "{kind}");
    }
    let geometry = &report["geometry"];
    assert_eq!((geometry["line"].as_u64(), geometry["tlb_ways"].as_u64()), (Some(64), Some(4)));
}

#[test]
fn a_kind_of_zero_page_that_is_named_twice_is_shown_once() {
    let report =
        one_object(&["zero", "--small", "--rounds", "1", "--zero-page", "small,huge,small", "--json"]);
    let model = report["model"].as_array().unwrap();
    let kinds: Vec<_> = model.iter().map(|row| row["zero_page"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["small", "small", "huge", "huge"], "two patterns of each");
    let sizes = ["memory_bytes", "touched_bytes"].map(|name| report[name].as_u64());
    assert_eq!(sizes, [Some(256 << 20), Some(32 << 20)]);
}

#[test]
fn a_boot_of_a_frame_table_says_what_each_number_of_threads_took() {
    let line = [
        "init",
        "--memory",
        "256M",
        "--nodes",
        "2",
        "--holes",
        "7",
        "--threads",
        "1",
        "--runs",
        "2",
        "--json",
    ];
    let report = one_object(&line);
    assert_eq!((report["nodes"].as_u64(), report["holes"].as_u64()), (Some(2), Some(7)));
    let rows = report["rows"].as_array().unwrap();
    let threads: Vec<_> = rows.iter().map(|row| row["threads"].as_u64().unwrap()).collect();
    assert_eq!(threads, [0, 1]);
    let number =
        |row: usize, name: &str| rows[row][name].as_f64().unwrap_or_else(|| panic!("{name} is missing"));
    assert!(number(1, "first_bytes_per_gib") < number(0, "first_bytes_per_gib"));
    assert!(
        ["first_ms", "all_ms", "all_stdev", "cpu_ms_per_gib", "gb_per_second"]
            .iter()
            .all(|n| number(1, n) >= 0.0)
    );
    assert_eq!(records_by_node(&report), [[Some(1 << 20), Some(0)]; 2]);
    let report = one_object(&[line.as_slice(), &["--no-window"]].concat());
    assert_eq!(records_by_node(&report), [[Some(0), Some(1 << 20)], [Some(2 << 20), Some(0)]]);
}

/// Of each node, the bytes of records that lie on it, and of its own that lie elsewhere.
fn records_by_node(report: &serde_json::Value) -> Vec<[Option<u64>; 2]> {
    let mut nodes = report["rows"][1]["by_node"].as_array().unwrap().clone();
    nodes.sort_by_key(|node| node["node"].as_u64());
    let bytes =
        |node: &serde_json::Value| ["records_on_node", "records_elsewhere"].map(|name| node[name].as_u64());
    nodes.iter().map(bytes).collect()
}

#[test]
fn a_figure_bears_every_name_of_the_schema() {
    let report = one_object(&["bench", "machine.rwlock", "--small", "--json"]);
    let figure = report["figures"][0].as_object().unwrap();
    let names = [
        "name",
        "value",
        "unit",
        "yardstick",
        "ratio",
        "low",
        "high",
        "aa",
        "samples",
        "bar",
        "verdict",
        "command",
    ];
    for name in names {
        assert!(figure.contains_key(name), "{name} is missing");
    }
    assert_eq!(figure["name"], "machine.rwlock_pair");
    assert!(report["context"].as_array().unwrap().iter().all(|f| f["name"] != "machine.rwlock_pair"));
}

#[test]
fn the_peak_garbage_of_a_group_is_printed_and_bounded() {
    let report = one_object(&["bench", "space", "--small", "--json"]);
    let garbage = report["garbage"].as_array().unwrap();
    assert_eq!(garbage.len(), 1, "the context runs no library");
    assert_eq!(garbage[0]["group"], "space");
    let number = |name: &str| garbage[0][name].as_u64().unwrap_or_else(|| panic!("{name} is missing"));
    assert!(number("peak_objects") > 0 && number("peak_bytes") > 0);
    assert!(number("peak_bytes") <= number("limit_bytes"));
    number("longest_grace_ns");
    let text = String::from_utf8(interleaf(&["bench", "space", "--small"]).stdout).unwrap();
    assert!(text.contains("garbage at its peak"), "{text}");
}

#[test]
fn one_figure_can_be_taken_alone() {
    let report = one_object(&["bench", "machine.fence", "--small", "--json"]);
    let names: Vec<_> = report["figures"].as_array().unwrap().iter().map(|f| f["name"].clone()).collect();
    assert_eq!(names, ["machine.fence"]);
}

#[test]
fn what_cannot_be_done_is_said_in_one_line_with_status_2() {
    let cases: [&[&str]; 29] = [
        &["calibrate", "--out", "/nowhere/profile.txt"],
        &["calibrate", "--out", "/"],
        &["zero", "--memory", "6M"],
        &["zero", "--rounds", "0"],
        &["fault", "page_fault4"],
        &["init", "--memory", "64"],
        &["teardown", "--memory", "1M"],
        &["teardown", "--memory", "3M"],
        &["teardown", "--memory", "17T"],
        &["teardown", "--runs", "0"],
        &["init", "--memory", "1M"],
        &["init", "--memory", "16384T"],
        &["init", "--memory", "16T"],
        &["init", "--nodes", "0"],
        &["init", "--memory", "64M", "--nodes", "9"],
        &["init", "--threads", "0"],
        &["init", "--threads", "100000"],
        &["init", "--runs", "0"],
        &["fault", "pft", "--cpus", "0"],
        &["fault", "pft", "--cpus", "1,100000"],
        &["fault", "pft", "--seconds", "0"],
        &["fault", "pft", "--rounds", "0"],
        &["fault", "pft", "--mib", "0"],
        &["fault", "mapper", "--threads", "1"],
        &["bench", "nothing.at_all"],
        &["bench", "--pairs", "3"],
        &["bench", "--small", "--pairs", "0"],
        &["bench", "machine.fence", "--check"],
        &["bench", "machine.memset", "--small", "--svg", "/proc/no/such"],
    ];
    for arguments in cases {
        let output = interleaf(arguments);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
        assert!(stderr.starts_with("interleaf: ") && output.stdout.is_empty(), "{arguments:?}");
    }
}

/// What stands in for cargo cannot build: the line says so, and which program was wanted.
#[test]
fn a_check_is_built_when_it_is_asked_for() {
    let check = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_interleaf"));
        command.arg("check").args(arguments).env("CARGO", "false").output().expect("the command starts")
    };
    let output = check(&["pairs", "--seeds", "1"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("interleaf-check does not build"), "{stderr}");
    assert!(String::from_utf8_lossy(&check(&["--help"]).stdout).contains("walkers"));
    assert_eq!(check(&["nothing"]).status.code(), Some(2));
}

#[test]
fn a_word_that_is_no_command_gets_status_2() {
    assert_eq!(interleaf(&["lsit"]).status.code(), Some(2));
    assert_eq!(interleaf(&["list", "--no-such-switch"]).status.code(), Some(2));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_interleaf"))
        .arg("list")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}
