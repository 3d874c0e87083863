use super::*;
use crate::trace::event::{Access, Call, Cause, Fault, Signal};

fn event(kind: Kind) -> Event {
    Event { time_ns: 0, pid: 1, tid: 1, kind }
}

fn fault(mode: Mode) -> Event {
    event(Kind::Fault(Fault { address: 0, access: Access::Read, mode, cause: Cause::Absent }))
}

fn balance(events: &[Event], completed: u64, counted: u64) -> Account {
    let mut process_counts = ProcessCounts::default();
    events.iter().for_each(|e| process_counts.add(e));
    let mut processes = [ProcessCount { pid: 1, counted, ..ProcessCount::default() }];
    process_counts.balance(&mut processes, Outside { completed, extent: Extent::Whole })
}

#[test]
fn faults_that_were_all_resolved_leave_nothing_to_explain() {
    let account = balance(&[fault(Mode::User), fault(Mode::Kernel)], 2, 2);
    assert_eq!((account.refused, account.filled, account.unexplained), (0, 0, 0));
}

#[test]
fn a_fault_that_was_not_recorded_is_missing() {
    assert_eq!(balance(&[fault(Mode::User)], 2, 2).unexplained, -1);
}

#[test]
fn a_user_fault_that_came_to_nothing_needs_a_signal_to_explain_it() {
    let signal = event(Kind::Signal(Signal { number: libc::SIGSEGV, code: 1, address: 0 }));
    assert_eq!(balance(&[fault(Mode::User)], 0, 0).unexplained, 1);
    assert_eq!(balance(&[fault(Mode::User), signal], 0, 0).unexplained, 0);
    assert_eq!(balance(&[fault(Mode::Kernel)], 0, 0).unexplained, 0);
}

#[test]
fn pages_filled_without_a_call_that_asked_are_a_term_of_their_own() {
    let args = [0, 3 * 4096, 3, 0x22 | u64::from(MapFlags::POPULATE.bits()), 0, 0];
    let call =
        Call { sys: Sys::Mmap, args, result: Some(4096), start_ns: 0, end_ns: 0, file: None, inode: None };
    let filled = |events: &[Event], counted| {
        let account = balance(events, 0, counted);
        assert_eq!((account.filled, account.unexplained), (counted, 0));
        account.filled_otherwise
    };
    assert_eq!(filled(&[], 3), 3);
    assert_eq!(filled(&[event(Kind::Call(call.clone()))], 3), 0);
    assert_eq!(filled(&[event(Kind::Call(call))], 5), 2);
}

#[test]
fn exceptions_that_the_processes_did_not_count_are_unexplained() {
    let faults = [fault(Mode::User), fault(Mode::User)];
    assert_eq!(balance(&faults, 2, 1).unexplained, -1);
    assert_eq!(balance(&faults, 2, 2).unexplained, 0);
}

#[test]
fn what_a_partial_recording_does_not_see_is_not_unexplained() {
    let mut counts = ProcessCounts::default();
    counts.add(&fault(Mode::User));
    let mut processes = [ProcessCount { pid: 1, counted: 9, ..ProcessCount::default() }];
    let partial = counts.balance(&mut processes, Outside { completed: 1, extent: Extent::Partial });
    assert_eq!((partial.filled, partial.filled_otherwise, partial.unexplained), (8, 0, 0));
    let whole = counts.balance(&mut processes, Outside { completed: 1, extent: Extent::Whole });
    assert_eq!((whole.filled, whole.filled_otherwise, whole.unexplained), (8, 8, 0));
}
