//! Histories drawn by hand: (time, thread, what) in, order out.

use super::*;
use crate::trace::event::{Cause, Mode, ProcessExit, Signal};
use proptest::prelude::*;

const P: u64 = 0x10_0000;

fn raw(time_ns: u64, tid: u32, what: What) -> Raw {
    Raw { time_ns, pid: 1, tid, what }
}

fn enter(time: u64, tid: u32, sys: Sys, args: [u64; 3]) -> Raw {
    raw(time, tid, What::Enter(sys, [args[0], args[1], args[2], 0, 0, 0]))
}

fn leave(time: u64, tid: u32, sys: Sys, result: u64) -> Raw {
    raw(time, tid, What::Leave(sys, result as i64))
}

fn fault(time: u64, tid: u32, address: u64) -> Raw {
    let access = Access::Write;
    raw(time, tid, What::Fault(Fault { address, access, mode: Mode::User, cause: Cause::Absent }))
}

fn segv(time: u64, tid: u32, address: u64) -> Raw {
    raw(time, tid, What::Signal(Signal { number: 11, code: 1, address }))
}

fn exit(time: u64, tid: u32) -> Raw {
    raw(time, tid, What::Exit(ProcessExit { status: 0, image: None }))
}

fn order(history: &[Raw]) -> Vec<Event> {
    let mut order = Order::default();
    let mut out = Vec::new();
    for raw in history {
        order.push(raw.clone());
        out.extend(std::iter::from_fn(|| order.pop()));
    }
    order.finish(history.last().map_or(0, |r| r.time_ns));
    out.extend(std::iter::from_fn(|| order.pop()));
    out
}

/// The order as `name@time` words.
fn words(history: &[Raw]) -> String {
    let word = |e: &Event| match &e.kind {
        Kind::Fault(_) => format!("fault@{}", e.time_ns),
        Kind::Call(c) => format!("{}@{}", c.sys, e.time_ns),
        Kind::Signal(_) => format!("signal@{}", e.time_ns),
        Kind::Exit(_) => format!("exit@{}", e.time_ns),
        other => format!("{other:?}"),
    };
    order(history).iter().map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn one_thread_keeps_its_own_order() {
    let history = [
        enter(10, 1, Sys::Mmap, [0, 4096, 3]),
        leave(20, 1, Sys::Mmap, P),
        fault(30, 1, P),
        enter(40, 1, Sys::Munmap, [P, 4096, 0]),
        leave(50, 1, Sys::Munmap, 0),
    ];
    assert_eq!(words(&history), "mmap@20 fault@30 munmap@40");
}

#[test]
fn a_fault_that_succeeded_is_before_the_munmap_it_met() {
    let history = [
        enter(10, 1, Sys::Munmap, [P, 4096, 0]),
        fault(12, 2, P + 8),
        leave(20, 1, Sys::Munmap, 0),
        fault(30, 2, 0x99_0000),
    ];
    assert_eq!(words(&history), "fault@12 munmap@12 fault@30");
}

#[test]
fn a_fault_that_ended_in_a_signal_is_after_the_munmap_it_met() {
    let history = [
        enter(10, 1, Sys::Munmap, [P, 4096, 0]),
        fault(12, 2, P + 8),
        leave(20, 1, Sys::Munmap, 0),
        segv(30, 2, P + 8),
    ];
    assert_eq!(words(&history), "munmap@10 fault@12 signal@30");
}

#[test]
fn faults_elsewhere_and_in_other_processes_do_not_move_a_munmap() {
    let mut stranger = fault(13, 3, P);
    stranger.pid = 2;
    let history = [
        enter(10, 1, Sys::Munmap, [P, 4096, 0]),
        fault(12, 2, P + 4096),
        stranger,
        leave(20, 1, Sys::Munmap, 0),
    ];
    assert_eq!(words(&history), "munmap@10 fault@12 fault@13");
}

#[test]
fn an_address_given_again_is_given_after_it_was_taken() {
    let history = [
        enter(10, 1, Sys::Munmap, [P, 8192, 0]),
        enter(11, 2, Sys::Mmap, [0, 4096, 3]),
        leave(15, 2, Sys::Mmap, P + 4096),
        fault(16, 2, P + 4096),
        leave(20, 1, Sys::Munmap, 0),
        fault(30, 2, 0x99_0000),
    ];
    assert_eq!(words(&history), "munmap@10 mmap@15 fault@16 fault@30");
}

#[test]
fn a_moved_mapping_is_moved_before_its_old_place_is_given_away() {
    let history = [
        raw(10, 1, What::Enter(Sys::Mremap, [P, 4096, 8192, 1, 0, 0])),
        enter(11, 2, Sys::Mmap, [0, 4096, 3]),
        leave(15, 2, Sys::Mmap, P),
        leave(20, 1, Sys::Mremap, 2 * P),
    ];
    assert_eq!(words(&history), "mremap@15 mmap@15");
}

#[test]
fn taking_a_right_away_waits_for_the_last_fault_that_used_it() {
    let history = |rights| {
        [
            enter(10, 1, Sys::Mprotect, [P, 4096, rights]),
            fault(12, 2, P + 8),
            leave(20, 1, Sys::Mprotect, 0),
            exit(30, 2),
        ]
    };
    assert_eq!(words(&history(1)), "fault@12 mprotect@12 exit@30");
    assert_eq!(words(&history(3)), "mprotect@10 fault@12 exit@30");
}

#[test]
fn giving_a_right_waits_for_the_last_fault_that_lacked_it() {
    let history = |rights| {
        [
            enter(10, 1, Sys::Mprotect, [P, 4096, rights]),
            fault(12, 2, P + 8),
            fault(14, 3, P + 16),
            leave(20, 1, Sys::Mprotect, 0),
            segv(30, 2, P + 8),
            exit(40, 3),
        ]
    };
    assert_eq!(words(&history(3)), "fault@12 mprotect@12 fault@14 signal@30 exit@40");
    assert_eq!(words(&history(1)), "fault@12 fault@14 mprotect@14 signal@30 exit@40", "it forbids both");
}

#[test]
fn a_right_to_write_is_one_to_read() {
    let read = |time| {
        let address = P + 8;
        let fault = Fault { address, access: Access::Read, mode: Mode::User, cause: Cause::Absent };
        raw(time, 2, What::Fault(fault))
    };
    let history =
        [enter(10, 1, Sys::Mprotect, [P, 4096, 2]), read(12), leave(20, 1, Sys::Mprotect, 0), exit(30, 2)];
    assert_eq!(words(&history), "mprotect@10 fault@12 exit@30");
}

#[test]
fn a_guard_takes_and_gives_as_rights_do() {
    let history = |advice, last| {
        let call = enter(10, 1, Sys::Madvise, [P, 4096, advice]);
        [call, fault(12, 2, P + 8), leave(20, 1, Sys::Madvise, 0), last]
    };
    assert_eq!(words(&history(102, exit(30, 2))), "fault@12 madvise@12 exit@30");
    assert_eq!(words(&history(102, segv(30, 2, P + 8))), "madvise@10 fault@12 signal@30");
    assert_eq!(words(&history(103, exit(30, 2))), "madvise@10 fault@12 exit@30");
    assert_eq!(words(&history(103, segv(30, 2, P + 8))), "fault@12 madvise@12 signal@30");
}

#[test]
fn a_call_that_never_returned_has_no_result_and_stands_at_its_start() {
    let history = [
        enter(10, 1, Sys::Munmap, [P, 4096, 0]),
        fault(12, 2, 0x99_0000),
        exit(20, 1),
        enter(21, 2, Sys::ExitGroup, [0, 0, 0]),
        exit(25, 2),
    ];
    assert_eq!(words(&history), "munmap@10 fault@12 exit@20 exit_group@21 exit@25");
    let Kind::Call(call) = &order(&history)[0].kind else { panic!("not a call") };
    assert_eq!((call.result, call.start_ns, call.end_ns), (None, 10, 20));
}

#[test]
fn a_call_in_two_threads_at_once_gives_two_calls() {
    let history = [
        enter(10, 1, Sys::Munmap, [P, 4096, 0]),
        enter(11, 2, Sys::Munmap, [2 * P, 4096, 0]),
        leave(12, 2, Sys::Munmap, 0),
        leave(13, 1, Sys::Munmap, 0),
    ];
    assert_eq!(words(&history), "munmap@10 munmap@11");
}

#[test]
fn a_return_without_an_entry_is_not_a_call() {
    assert_eq!(words(&[leave(5, 1, Sys::Fork, 0), fault(6, 1, P)]), "fault@6");
}

#[test]
fn a_mapped_file_s_name_goes_with_its_mmap() {
    let history = [
        enter(10, 1, Sys::Mmap, [0, 4096, 1]),
        raw(11, 1, What::Mapped("/lib/z".into(), None)),
        leave(12, 1, Sys::Mmap, P),
    ];
    let Kind::Call(call) = &order(&history)[0].kind else { panic!("not a call") };
    assert_eq!(call.file.as_deref(), Some("/lib/z"));
}

fn any_step() -> impl Strategy<Value = (u32, u8, u64, u64)> {
    (1u32..4, 0u8..7, 0u64..6, 1u64..4)
}

proptest! {
    /// Whatever the threads did: times rise, every call lies between its start and its end, nothing is lost.
    #[test]
    fn every_order_is_an_order(steps in prop::collection::vec(any_step(), 0..60)) {
        let mut inside: HashMap<u32, Sys> = HashMap::new();
        let mut history = Vec::new();
        let (mut calls, mut others) = (0, 0);
        for (n, (tid, kind, page, pages)) in steps.into_iter().enumerate() {
            let (time, address) = (n as u64 * 7, P + page * 4096);
            let calling = inside.get(&tid).copied();
            history.push(match (kind, calling) {
                (6, Some(sys)) => { inside.remove(&tid); leave(time, tid, sys, address) }
                (0..=3, None) => {
                    let sys = [Sys::Munmap, Sys::Mprotect, Sys::Mremap, Sys::Mmap][usize::from(kind)];
                    inside.insert(tid, sys);
                    calls += 1;
                    enter(time, tid, sys, [address, pages * 4096, page])
                }
                (4, None) => { others += 1; segv(time, tid, address) }
                (_, None) => { others += 1; fault(time, tid, address) }
                (_, Some(_)) => continue,
            });
        }
        let events = order(&history);
        prop_assert!(events.windows(2).all(|w| w[0].time_ns <= w[1].time_ns));
        prop_assert_eq!(events.len(), calls + others);
        for e in &events {
            if let Kind::Call(c) = &e.kind {
                prop_assert!(c.start_ns <= e.time_ns && e.time_ns <= c.end_ns, "{:?}", e);
            }
        }
    }
}

/// A call waits for a thread of which nothing is heard, while others go on: each of their events is looked at
/// once, not all of them again for each.
#[test]
fn a_call_that_waits_for_a_thread_costs_nothing_meanwhile() {
    let events = 400_000;
    let mut history =
        vec![enter(1, 1, Sys::Munmap, [P, 0x1000, 0]), fault(2, 2, P), leave(3, 1, Sys::Munmap, 0)];
    // 100 ms later it would wait no more.
    history.extend((0..events).map(|n| fault(10 + n * 200, 3, P + 0x10_0000)));
    history.push(segv(20 + events * 200, 2, P));
    let began = std::time::Instant::now();
    let ordered = order(&history);
    assert_eq!(ordered.len() as u64, events + 3);
    assert!(matches!(&ordered[0].kind, Kind::Call(call) if call.sys == Sys::Munmap), "{:?}", ordered[0]);
    // It took minutes.
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
}
