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
fn pages_filled_without_an_exception_need_a_call_that_asked() {
    let args = [0, 3 * 4096, 3, 0x22 | u64::from(MapFlags::POPULATE.bits()), 0, 0];
    let call = Call { sys: Sys::Mmap, args, result: Some(4096), start_ns: 0, end_ns: 0, file: None };
    assert_eq!(balance(&[], 0, 3).unexplained, 3);
    assert_eq!(balance(&[event(Kind::Call(call.clone()))], 0, 3).unexplained, 0);
    assert_eq!(balance(&[event(Kind::Call(call))], 0, 5).unexplained, 2);
}

#[test]
fn what_a_partial_recording_does_not_see_is_not_unexplained() {
    let mut counts = ProcessCounts::default();
    counts.add(&fault(Mode::User));
    let mut processes = [ProcessCount { pid: 1, counted: 9, ..ProcessCount::default() }];
    let partial = counts.balance(&mut processes, Outside { completed: 1, extent: Extent::Partial });
    assert_eq!((partial.filled, partial.unexplained), (8, 0));
    let whole = counts.balance(&mut processes, Outside { completed: 1, extent: Extent::Whole });
    assert_eq!(whole.unexplained, 8);
}
