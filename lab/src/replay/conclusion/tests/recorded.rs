use super::*;
use crate::trace::{Access, Cause, Fault, Mode, NewTask};

fn event(tid: u32, time_ns: u64, kind: Kind) -> Event {
    Event { time_ns, pid: 1, tid, kind }
}

fn fault(tid: u32, time_ns: u64) -> Event {
    let (access, mode, cause) = (Access::Write, Mode::User, Cause::Absent);
    event(tid, time_ns, Kind::Fault(Fault { address: 0x1000, access, mode, cause }))
}

fn call(tid: u32, sys: Sys, start_ns: u64, end_ns: u64) -> Event {
    let call = Call { sys, args: [0; 6], result: Some(0), start_ns, end_ns, file: None, inode: None };
    event(tid, end_ns, Kind::Call(call))
}

fn task(tid: u32, time_ns: u64, made: u32, flags: u64) -> Event {
    event(tid, time_ns, Kind::Task(NewTask { tid: made, flags }))
}

#[test]
fn each_thread_lives_from_its_first_event_to_its_last() {
    let events = [task(1, 10, 2, NewTask::VM | NewTask::THREAD), fault(2, 30), fault(1, 40), fault(2, 70)];
    let recorded = Recorded::of(1, &events);
    assert_eq!((recorded.threads, recorded.lived_ns), (2, 40 + 60));
}

#[test]
fn a_number_that_is_used_again_is_another_thread() {
    let thread = NewTask::VM | NewTask::THREAD;
    let events = [task(1, 0, 2, thread), fault(2, 10), task(1, 50, 2, thread), fault(2, 55)];
    let recorded = Recorded::of(1, &events);
    assert_eq!((recorded.threads, recorded.lived_ns), (3, 50 + 10 + 5));
}

#[test]
fn calls_about_memory_count_from_entry_to_return_and_forks_apart() {
    let events = [
        call(1, Sys::Mmap, 0, 10),
        call(1, Sys::Prctl, 20, 21),
        task(1, 35, 2, 0),
        call(1, Sys::Clone, 30, 50),
        task(1, 65, 3, NewTask::VM | NewTask::THREAD),
        call(1, Sys::Clone, 60, 90),
        call(1, Sys::Execve, 91, 99),
    ];
    let recorded = Recorded::of(1, &events);
    assert_eq!((recorded.calls, recorded.calls_ns), (1, 10));
    assert_eq!((recorded.forks, recorded.forks_ns), (1, 20));
}

#[test]
fn faults_are_estimated_by_the_shortest_tenth_and_bounded_by_their_threads_next_event() {
    let gaps = [7, 90, 3, 50, 60, 70, 80, 4, 30, 20];
    let mut at = 0;
    let mut events = vec![fault(1, 0)];
    for gap in gaps {
        at += gap;
        events.push(fault(1, at));
    }
    let recorded = Recorded::of(1, &events);
    assert_eq!(recorded.faults, 11);
    assert_eq!((recorded.fault_tenth_ns, recorded.faults_estimated_ns), (4, 44));
    assert_eq!(recorded.faults_at_most_ns, gaps.iter().sum::<u64>());
}

#[test]
fn without_faults_there_is_nothing_to_estimate() {
    let recorded = Recorded::of(1, &[call(1, Sys::Brk, 5, 9)]);
    assert_eq!((recorded.faults, recorded.faults_estimated_ns, recorded.memory_ns()), (0, 0, 4));
}

#[test]
fn faults_beside_calls_and_the_others_are_told_apart() {
    let events = [
        call(2, Sys::Munmap, 0, 100),
        fault(1, 100),
        fault(1, 140),
        call(2, Sys::Munmap, 200, 300),
        fault(1, 300),
        fault(1, 900),
    ];
    let recorded = Recorded::of(1, &events);
    assert_eq!(recorded.beside_calls, 2);
    assert_eq!((recorded.beside_half_ns, recorded.others_half_ns), (600, 160));
}
