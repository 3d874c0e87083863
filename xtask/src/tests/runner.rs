//! Tests of verdicts and of expected refusals.

use super::*;

const NOTHING: Duration = Duration::ZERO;

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

fn step(name: &'static str, lane: Lane, script: &str) -> Step {
    Step { name, action: Action::Command(shell(script)), lane }
}

#[test]
fn a_failure_in_either_lane_fails_and_the_rest_of_the_lane_still_runs() {
    let folder = std::env::temp_dir().join(format!("interleaf-lanes-{}", std::process::id()));
    fs::create_dir(&folder).expect("a new folder");
    let touch = |name: &str| format!("touch {}/{name}", folder.display());
    let steps = vec![
        step("one", Lane::First, "exit 1"),
        step("two", Lane::Beside, "exit 2"),
        step("three", Lane::First, &touch("three")),
        step("four", Lane::Beside, &touch("four")),
    ];
    let mut failed = run_lanes(steps, Path::new("/dev/null"));
    failed.sort_unstable();
    let ran = ["three", "four"].map(|name| folder.join(name).exists());
    fs::remove_dir_all(&folder).expect("the folder");
    assert_eq!((failed, ran), (vec!["one", "two"], [true, true]));
}

/// Steps of these lanes, each of which waits ten seconds for the other. Whether both have met.
fn meet(lanes: [Lane; 2]) -> bool {
    let folder = std::env::temp_dir().join(format!("interleaf-meet-{}-{:?}", std::process::id(), lanes[0]));
    fs::create_dir(&folder).expect("a new folder");
    let meet = |mine: &str, other: &str| {
        let folder = folder.display();
        let wait = format!("for i in $(seq 100); do [ -e {folder}/{other} ] && exit; sleep 0.1; done");
        format!("touch {folder}/{mine}; {wait}; exit 1")
    };
    let steps = vec![step("a", lanes[0], &meet("a", "b")), step("b", lanes[1], &meet("b", "a"))];
    let failed = run_lanes(steps, Path::new("/dev/null"));
    fs::remove_dir_all(&folder).expect("the folder");
    failed.is_empty()
}

#[test]
fn lanes_run_at_the_same_time() {
    assert!(meet([Lane::First, Lane::Beside]));
}

#[test]
fn the_first_lane_takes_steps_of_the_other_when_it_has_done_its_own() {
    assert!(meet([Lane::Beside, Lane::Beside]));
}

#[test]
fn what_a_step_beside_prints_is_kept_whole() {
    let ended =
        run_kept(step("says", Lane::Beside, "echo out; echo err >&2; exit 3"), Path::new("/dev/null"));
    assert_eq!(ended.output, "out\nerr\n");
    assert!(ended.result.is_err());
    let models = Step { name: "none", action: Action::Models(shell("echo nothing")), lane: Lane::Beside };
    let ended = run_kept(models, Path::new("/dev/null"));
    assert_eq!((ended.output.as_str(), ended.result), ("nothing\n", Err("no model ran".to_string())));
}

#[test]
fn no_chore_runs_beside_since_it_prints_as_it_goes() {
    for step in crate::steps::ci() {
        let step = step();
        assert!(step.lane == Lane::First || !matches!(step.action, Action::Chore(_)), "{}", step.name);
    }
}

#[test]
fn a_failed_step_fails_the_run() {
    assert!(verdict(2, &["loom"], "", false, NOTHING).unwrap_err().contains("loom"));
    assert!(verdict(2, &[], "", true, NOTHING).is_ok());
}

#[test]
fn what_could_not_be_run_fails_only_in_ci() {
    assert!(verdict(2, &[], "records a program: no tracepoints\n", false, NOTHING).is_ok());
    assert!(verdict(2, &[], "records a program: no tracepoints\n", true, NOTHING).is_err());
}

#[test]
fn passed_tests_are_counted_over_all_of_cargos_results() {
    let output = "test result: ok. 3 passed; 0 failed\nnoise\ntest result: ok. 4 passed; 0 failed\n";
    assert_eq!(passed(output), 7);
    assert_eq!(passed("test result: FAILED. 3 passed; 1 failed"), 0);
}

#[test]
fn a_refusal_must_be_for_the_expected_reason() {
    let refused = |script| perform(Action::Refused(shell(script), "duplicate"), Path::new("/dev/null"), None);
    assert!(refused("echo duplicate; exit 1").is_ok());
    assert!(refused("echo other; exit 1").is_err());
    assert!(refused("echo duplicate").is_err());
}
