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
}

#[test]
fn a_mount_is_said_and_what_a_trace_reveals() {
    assert!(!text(&report(false, 0)).contains("tracefs"));
    let mounted = Report { mounted_tracefs: true, ..report(false, 0) };
    assert!(text(&mounted).contains("tracefs was mounted at /sys/kernel/tracing"));
    assert!(text(&mounted).contains("no contents of memory"));
}
