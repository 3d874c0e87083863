use super::*;

fn of(code: i32) -> Outcome {
    Outcome::of(ExitStatus::from_raw(code << 8), "no such machine")
}

#[test]
fn every_code_of_a_program_comes_back() {
    for code in 0..=MOST_CODE {
        assert_eq!(of((ORDERLY + code) << 1 | 1), Outcome::Ended { code: code as u8 });
    }
}

#[test]
fn what_the_kernel_never_writes_is_no_verdict() {
    assert_eq!(of(0xff), Outcome::Panicked);
    assert_eq!(of(0), Outcome::Reset);
    assert_eq!(of(1), Outcome::Refused { reason: "no such machine".into() });
    for status in [2, 3, 0x1f, 0x22, 0xa1, 0xfd, 0xfe] {
        assert_eq!(of(status), Outcome::Odd { status });
    }
    assert_eq!(Outcome::of(ExitStatus::from_raw(9), ""), Outcome::Killed { signal: 9 });
}

#[test]
fn only_an_orderly_end_has_a_code_and_the_rest_a_line() {
    assert_eq!(of(0x21).code(9), Ok(0));
    for outcome in [of(0), of(1), of(2), of(0xff), Outcome::TimedOut, Outcome::Killed { signal: 9 }] {
        let line = outcome.code(9).unwrap_err();
        assert_eq!(line.lines().count(), 1, "{outcome:?}");
    }
}
