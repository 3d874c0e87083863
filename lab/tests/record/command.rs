//! The commands, as people run them: what is said, where, and with which status.

use crate::may_record;
use interleaf_lab::os::lacking;
use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

const INTERLEAF: &str = env!("CARGO_BIN_EXE_interleaf");

fn run(args: &[&str]) -> Output {
    Command::new(INTERLEAF).args(args).output().unwrap()
}

fn temporary(name: &str) -> String {
    format!("{}/{name}", env!("CARGO_TARGET_TMPDIR"))
}

fn shipped(name: &str) -> String {
    format!("{}/traces/{name}.trace", env!("CARGO_MANIFEST_DIR"))
}

/// The one line of a refusal.
fn refusal(output: &Output) -> String {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

#[test]
fn a_recording_can_be_asked_about_and_dumped() {
    if !may_record("a_recording_can_be_asked_about_and_dumped") {
        return;
    }
    let file = temporary("true.trace");
    let recorded = run(&["record", "--json", "-o", &file, "--", "true"]);
    let report: serde_json::Value = serde_json::from_slice(&recorded.stdout).unwrap();
    let info: serde_json::Value =
        serde_json::from_slice(&run(&["trace", "info", "--json", &file]).stdout).unwrap();
    assert_eq!(report["events"], info["footer"]["events"]);
    assert_eq!(info["footer"]["account"]["unexplained"], 0);
    let dump = String::from_utf8(run(&["trace", "dump", &file]).stdout).unwrap();
    assert_eq!(dump.lines().count() as u64, report["events"].as_u64().unwrap());
}

#[test]
fn every_line_of_a_json_dump_is_an_object() {
    let dump = String::from_utf8(run(&["trace", "dump", "--json", &shipped("sqlite")]).stdout).unwrap();
    for line in dump.lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(event["time_ns"].is_u64() && event["kind"].is_string(), "{line}");
    }
    assert!(dump.lines().count() > 1000);
}

#[test]
fn info_says_the_account_in_words() {
    let output = run(&["trace", "info", &shipped("churn")]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("unexplained"), "all is explained");
    for word in ["minflt + majflt", "final map", "munmap", "churn 4 6000"] {
        assert!(text.contains(word), "{word} is missing in\n{text}");
    }
}

#[test]
fn a_damaged_trace_is_refused_in_one_line_that_names_the_byte() {
    let file = temporary("damaged.trace");
    let mut bytes = fs::read(shipped("sqlite")).unwrap();
    bytes[5000] ^= 1;
    fs::write(&file, &bytes).unwrap();
    for what in ["info", "dump"] {
        assert!(refusal(&run(&["trace", what, &file])).contains("byte "));
    }
    fs::write(&file, &bytes[..4000]).unwrap();
    assert!(refusal(&run(&["trace", "info", &file])).contains("the file ends inside"));
}

#[test]
fn what_is_no_trace_or_not_there_is_refused() {
    assert!(refusal(&run(&["trace", "info", INTERLEAF])).contains("not a trace"));
    assert!(refusal(&run(&["trace", "dump", "/nonexistent"])).contains("/nonexistent"));
}

#[test]
fn a_command_that_cannot_be_run_leaves_no_file() {
    if !may_record("a_command_that_cannot_be_run_leaves_no_file") {
        return;
    }
    let file = temporary("nothing.trace");
    let said = refusal(&run(&["record", "-o", &file, "--", "no-such-command"]));
    assert!(said.contains("cannot run 'no-such-command'"), "{said}");
    assert!(!PathBuf::from(&file).exists() && !PathBuf::from(file + ".partial").exists());
}

#[test]
fn a_device_is_no_place_for_a_trace() {
    let said = refusal(&run(&["record", "-o", "/dev/full", "--", "true"]));
    assert!(said.contains("/dev/full") && said.contains("regular file"), "{said}");
    let kind = fs::symlink_metadata("/dev/full").unwrap().file_type();
    assert!(kind.is_char_device() && !PathBuf::from("/dev/full.partial").exists());
}

/// A folder in which nothing is yet.
fn empty_folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(temporary(name));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn files_in(folder: &PathBuf) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.to_string_lossy().into_owned()).collect()
}

#[test]
fn a_recording_that_is_ended_by_a_signal_leaves_no_file() {
    if !may_record("a_recording_that_is_ended_by_a_signal_leaves_no_file") {
        return;
    }
    let folder = empty_folder("ended");
    for signal in ["USR1", "VTALRM", "XCPU", "RTMIN", "KILL"] {
        let mut recorder = Command::new(INTERLEAF);
        recorder.args(["record", "-o", "t", "--", "sh", "-c", "echo > ../begun; exec sleep 60"]);
        let mut recorder = recorder.current_dir(&folder).spawn().unwrap();
        let begun = PathBuf::from(temporary("begun"));
        while !begun.exists() {
            assert_eq!(recorder.try_wait().unwrap(), None, "the recorder ended before it began");
            thread::sleep(Duration::from_millis(2));
        }
        Command::new("kill").args([&format!("-{signal}"), &recorder.id().to_string()]).status().unwrap();
        assert!(recorder.wait().unwrap().signal().is_some(), "{signal}");
        assert_eq!(files_in(&folder), [""; 0], "{signal}");
        fs::remove_file(begun).unwrap();
    }
}

/// Records a shell script until it says that it has begun, sends the recorder a signal, and returns what the
/// recorder reports.
fn ended_by(signal: &str, script: &str) -> serde_json::Value {
    let folder = empty_folder(&format!("ended-{signal}-{}", script.len()));
    // A signal that is ignored, as under nohup, stays ignored in a recorder.
    let mut recorder = Command::new("env");
    recorder.args([
        "--default-signal",
        INTERLEAF,
        "record",
        "--json",
        "-o",
        "t",
        "--",
        "sh",
        "-c",
        &format!("{script}\necho > begun; wait"),
    ]);
    let mut recorder = recorder.current_dir(&folder).stdout(Stdio::piped()).spawn().unwrap();
    while !folder.join("begun").exists() {
        assert_eq!(recorder.try_wait().unwrap(), None, "the recorder ended before it began");
        thread::sleep(Duration::from_millis(2));
    }
    Command::new("kill").args([&format!("-{signal}"), &recorder.id().to_string()]).status().unwrap();
    let output = recorder.wait_with_output().unwrap();
    let file = folder.join("t");
    let info = run(&["trace", "info", "--json", file.to_str().unwrap()]);
    let info: serde_json::Value = serde_json::from_slice(&info.stdout).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["events"], info["footer"]["events"], "{signal}");
    assert_eq!(info["footer"]["stopped_by"], report["stopped_by"]);
    assert_eq!(info["footer"]["account"]["unexplained"], 0, "{info}");
    let maps = info["footer"]["processes"].as_array().unwrap();
    assert!(maps.len() >= 2 && maps.iter().all(|process| process["final_map"] == true), "{signal}: {info}");
    let replayed = run(&["replay", file.to_str().unwrap()]);
    assert!(replayed.status.success(), "{replayed:?}");
    report
}

#[test]
fn a_recording_that_is_asked_to_end_keeps_what_it_has() {
    if !may_record("a_recording_that_is_asked_to_end_keeps_what_it_has") {
        return;
    }
    for (signal, number) in [("TERM", 15), ("HUP", 1), ("INT", 2)] {
        let report = ended_by(signal, "trap 'exit 3' TERM HUP INT; sleep 60 &");
        assert_eq!((report["stopped_by"].as_i64(), report["status"].as_i64()), (Some(number), Some(3 << 8)));
    }
}

#[test]
fn a_command_that_ignores_the_signal_is_killed() {
    if !may_record("a_command_that_ignores_the_signal_is_killed") {
        return;
    }
    let report = ended_by("TERM", "trap '' TERM; sleep 60 &");
    assert_eq!((report["stopped_by"].as_i64(), report["status"].as_i64()), (Some(15), Some(9)));
}

#[test]
fn a_trace_is_its_owners_alone() {
    if !may_record("a_trace_is_its_owners_alone") {
        return;
    }
    let file = temporary("owner.trace");
    let mode = || fs::metadata(&file).unwrap().permissions().mode() & 0o777;
    let _ = fs::remove_file(&file);
    run(&["record", "-o", &file, "--", "true"]);
    assert_eq!(mode(), 0o600);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    run(&["record", "-o", &file, "--", "true"]);
    assert_eq!(mode(), 0o600, "a trace that is replaced");
}

#[test]
fn a_trace_that_outgrows_the_limit_of_files_is_an_error() {
    if !may_record("a_trace_that_outgrows_the_limit_of_files_is_an_error") {
        return;
    }
    let folder = empty_folder("outgrown");
    let script = format!("ulimit -f 1; exec {INTERLEAF} record -o t -- sh -c 'ls -lR /etc | sort | wc -l'");
    let output = Command::new("sh").args(["-c", &script]).current_dir(&folder).output().unwrap();
    let said = refusal(&output);
    assert!(said.contains("t: File too large"), "{said}");
    assert_eq!(files_in(&folder), [""; 0]);
    // The program's own limit ends it as ever.
    let grown = format!("ulimit -f 1; exec head -c 5000 /dev/zero > {}", temporary("big"));
    let output = run(&["record", "-o", &temporary("limited.trace"), "--", "sh", "-c", &grown]);
    assert_eq!(output.status.code(), Some(128 + 25), "SIGXFSZ: {output:?}");
}

#[test]
fn slowdown_is_measured_when_asked_for() {
    if !may_record("slowdown_is_measured_when_asked_for") {
        return;
    }
    let file = temporary("slowdown.trace");
    let output = run(&["record", "--json", "--measure-slowdown", "1", "-o", &file, "--", "true"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["slowdown"]["ratio"].as_f64().unwrap() > 0.0);
    assert_eq!(report["slowdown"]["runs"], 1);
}

#[test]
fn a_recording_ends_with_the_status_of_its_command() {
    if !may_record("a_recording_ends_with_the_status_of_its_command") {
        return;
    }
    let file = temporary("status.trace");
    let status = |script: &str| run(&["record", "-o", &file, "--", "sh", "-c", script]).status.code();
    assert_eq!((status("exit 0"), status("exit 41"), status("exit 200")), (Some(0), Some(41), Some(200)));
    assert_eq!(status("kill -SEGV $$"), Some(128 + 11));
}

#[test]
fn the_report_is_one_object_whatever_the_command_prints() {
    if !may_record("the_report_is_one_object_whatever_the_command_prints") {
        return;
    }
    let file = temporary("noise.trace");
    let output = run(&["record", "--json", "-o", &file, "--", "sh", "-c", "echo noise"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report.is_object() && String::from_utf8_lossy(&output.stderr).contains("noise"));
}

#[test]
fn a_program_is_named_as_it_was_called() {
    if !may_record("a_program_is_named_as_it_was_called") {
        return;
    }
    let file = temporary("called.trace");
    let link = temporary("another-name");
    let _ = fs::remove_file(&link);
    std::os::unix::fs::symlink("/bin/true", &link).unwrap();
    run(&["record", "-o", &file, "--", &link]);
    let info: serde_json::Value =
        serde_json::from_slice(&run(&["trace", "info", "--json", &file]).stdout).unwrap();
    assert_eq!(info["header"]["image"]["called"], link);
    let replayed = run(&["replay", &file]);
    assert!(String::from_utf8_lossy(&replayed.stdout).contains("another-name"));
}

#[test]
fn a_partial_recording_is_replayed_and_labelled() {
    let file = temporary("partial.trace");
    let recorded = run(&["record", "--user", "-o", &file, "--", "sort", "--version"]);
    let said = String::from_utf8_lossy(&recorded.stderr).into_owned();
    if said.contains("recording needs") {
        return lacking::note(
            "a_partial_recording_is_replayed_and_labelled",
            "kernel.perf_event_paranoid of at most 2",
        );
    }
    assert!(recorded.status.success(), "{said}");
    assert!(!String::from_utf8_lossy(&recorded.stdout).contains("unexplained"));
    let replayed = run(&["replay", &file]);
    let text = String::from_utf8_lossy(&replayed.stdout).into_owned();
    assert!(replayed.status.success() && text.contains("PARTIAL"), "{text}");
}

/// A copy of the program, and a folder, that every user may use; and the words that run it as user `nobody`.
fn as_nobody(test: &str) -> Option<(Command, PathBuf)> {
    let user = Command::new("setpriv").args(["--reuid=65534", "true"]).status();
    if !user.is_ok_and(|status| status.success()) {
        lacking::note(test, "setpriv and the right to become another user");
        return None;
    }
    let folder = std::env::temp_dir().join(format!("interleaf-{test}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    Command::new("chmod").arg("777").arg(&folder).status().unwrap();
    fs::copy(INTERLEAF, folder.join("interleaf")).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(folder.join("interleaf"));
    command.current_dir(&folder);
    Some((command, folder))
}

#[test]
fn an_ordinary_user_is_told_what_is_missing_and_how_to_get_it() {
    let Some((mut command, folder)) = as_nobody("refusal") else { return };
    let said = refusal(&command.args(["record", "-o", "t", "--", "true"]).output().unwrap());
    assert!(said.contains("CAP_PERFMON") && said.contains("CAP_DAC_READ_SEARCH"), "{said}");
    assert!(said.contains("setcap cap_perfmon,cap_dac_read_search,cap_ipc_lock+ep"), "{said}");
    assert!(said.contains(folder.to_str().unwrap()), "the line names the program: {said}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn an_ordinary_user_records_a_partial_trace() {
    let Some((mut command, folder)) = as_nobody("partial") else { return };
    let output =
        command.args(["record", "--user", "-o", "t", "--", "sh", "-c", "ls | wc -l"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("recording needs") {
        lacking::note("an_ordinary_user_records_a_partial_trace", "kernel.perf_event_paranoid of at most 2");
    } else {
        assert!(output.status.success(), "{said}");
        let info = run(&["trace", "info", folder.join("t").to_str().unwrap()]);
        assert!(String::from_utf8_lossy(&info.stdout).contains("PARTIAL"));
        let replayed = run(&["replay", folder.join("t").to_str().unwrap()]);
        let text = String::from_utf8_lossy(&replayed.stdout).into_owned();
        assert!(replayed.status.success() && text.contains("PARTIAL"), "{text}");
    }
    fs::remove_dir_all(folder).unwrap();
}
