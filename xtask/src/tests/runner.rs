//! Tests of verdicts and of expected refusals.

use super::*;

const NOTHING: Duration = Duration::ZERO;

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
    let shell = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    };
    let file = PathBuf::from("/dev/null");
    let refused = |script| perform(Action::Refused(shell(script), "duplicate"), &file);
    assert!(refused("echo duplicate; exit 1").is_ok());
    assert!(refused("echo other; exit 1").is_err());
    assert!(refused("echo duplicate").is_err());
}
