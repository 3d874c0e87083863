use super::*;

fn of(status: i32, stderr: &str) -> Outcome {
    Outcome::of(ExitStatus::from_raw(status << 8), stderr)
}

fn value(value: i32, stderr: &str) -> Outcome {
    of(value << 1 | 1, stderr)
}

#[test]
fn every_code_of_a_program_comes_back() {
    for code in 0..=255 {
        let stderr = format!("qemu: warning: slow\nexit code {code}\n");
        assert_eq!(value(ORDERLY, &stderr), Outcome::Ended { code });
    }
}

#[test]
fn an_orderly_end_without_a_code_is_no_verdict() {
    for stderr in ["", "exit code", "exit code 256", "exit code x", "the exit code 3"] {
        assert!(matches!(value(ORDERLY, stderr), Outcome::Odd { status: 0x21, .. }), "{stderr:?}");
    }
}

#[test]
fn what_the_kernel_never_writes_is_no_verdict() {
    let words = "no such machine";
    assert_eq!(value(PANIC, ""), Outcome::Panicked);
    assert_eq!(value(NOT_LOADED, ""), Outcome::NotLoaded);
    assert_eq!(value(LEAKED, ""), Outcome::Leaked);
    assert_eq!(of(0, words), Outcome::NoVerdict);
    assert_eq!(of(1, words), Outcome::Refused { reason: words.into() });
    for status in [2, 3, 0x1f, 0x20, 0x22, 0x24, 0xa1, 0xfd, 0xfe] {
        assert_eq!(of(status, words), Outcome::Odd { status, reason: words.into() });
    }
    let killed = Outcome::of(ExitStatus::from_raw(9), "");
    assert_eq!(killed, Outcome::Killed { signal: 9, reason: String::new() });
}

#[test]
fn only_an_orderly_end_has_a_code_and_the_rest_a_line() {
    assert_eq!(value(ORDERLY, "exit code 200").code(9), Ok(200));
    let aborted = Outcome::of(ExitStatus::from_raw(6), "kvm.c: Assertion failed");
    assert_eq!(aborted.code(9), Err("QEMU was killed by signal 6: kvm.c: Assertion failed".into()));
    for outcome in [of(0, ""), of(1, ""), of(2, ""), value(PANIC, ""), value(LEAKED, ""), Outcome::TimedOut] {
        let line = outcome.code(9).unwrap_err();
        assert_eq!(line.lines().count(), 1, "{outcome:?}");
    }
}
