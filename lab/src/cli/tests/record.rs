use super::*;

fn report(partial: bool, unexplained: i64) -> Report {
    let account = Account { counted: 7, recorded: 5, filled: 2, unexplained, ..Account::default() };
    Report {
        file: "t".into(),
        bytes: 1,
        partial,
        events: 5,
        faults: 5,
        calls: 0,
        processes: 1,
        duration_ns: 1,
        status: 0,
        stopped_by: None,
        account,
        mounted_tracefs: false,
        slowdown: None,
    }
}

#[test]
fn what_is_explained_is_not_called_unexplained() {
    assert!(!text(&report(false, 0)).contains("unexplained"));
    assert!(!text(&report(true, 0)).contains("unexplained"));
    assert!(text(&report(true, 0)).contains("5 recorded - 0 signalled + 2 not recorded"));
    assert!(text(&report(false, 3)).contains("unexplained 3"));
    assert!(text(&report(false, 0)).contains("+ 2 filled\n"));
    let mut by_hand = report(false, 0);
    by_hand.account.filled_otherwise = 2;
    assert!(text(&by_hand).contains("+ 0 filled + 2 filled by the kernel without an exception (futexes"));
}

#[test]
fn a_slowdown_is_said_in_the_order_of_the_runs() {
    let slowdown = Slowdown { runs: 5, bare_ns: 25_000_000, recorded_ns: 43_000_000, ratio: 1.72 };
    let said = text(&Report { slowdown: Some(slowdown), ..report(false, 0) });
    assert!(
        said.contains("slowdown 1.720 (0.025 s bare, 0.043 s recorded, medians of 5 runs each)"),
        "{said}"
    );
    assert_eq!(at_least_one("1"), Ok(1));
    for refused in ["0", "-1", "many", ""] {
        assert!(at_least_one(refused).is_err(), "{refused}");
    }
}

#[test]
fn a_mount_is_said_and_what_a_trace_reveals() {
    assert!(!text(&report(false, 0)).contains("tracefs"));
    let mounted = Report { mounted_tracefs: true, ..report(false, 0) };
    assert!(text(&mounted).contains("tracefs was mounted at /sys/kernel/tracing"));
    assert!(text(&mounted).contains("no contents of memory"));
}
