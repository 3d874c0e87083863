//! Linux's times.

use super::*;
use crate::trace::{Access, Cause, Fault, Mode};

fn fault(tid: u32, time_ns: u64) -> Event {
    let (access, mode, cause) = (Access::Write, Mode::User, Cause::Absent);
    Event { time_ns, pid: 1, tid, kind: Kind::Fault(Fault { address: 0x1000, access, mode, cause }) }
}

fn call(tid: u32, sys: Sys, start_ns: u64, end_ns: u64) -> Event {
    let call = Call { sys, args: [0; 6], result: Some(0), start_ns, end_ns, file: None, inode: None };
    Event { time_ns: start_ns, pid: 1, tid, kind: Kind::Call(call) }
}

#[test]
fn a_fault_meets_a_mapping_call_of_another_thread_only_while_that_is_under_way() {
    let events = [
        fault(1, 5),
        call(2, Sys::Munmap, 10, 30),
        fault(1, 10),
        fault(2, 20),
        fault(1, 30),
        fault(1, 31),
        call(2, Sys::Madvise, 40, 60),
        fault(1, 50),
    ];
    let times = LinuxTimes::of(&events);
    assert_eq!(times.contended, Contended { faults: 6, beside_a_call: 2 });
    assert_eq!(times.calls[&Sys::Munmap], [20]);
}

#[test]
fn the_time_after_a_fault_is_that_to_the_next_event_of_its_thread() {
    let events = [fault(1, 10), fault(2, 11), fault(1, 14), call(1, Sys::Brk, 20, 25), fault(2, 41)];
    assert_eq!(LinuxTimes::of(&events).after_faults, [4, 6, 30]);
}

#[test]
fn a_fault_waits_at_most_until_no_other_thread_is_in_such_a_call_or_its_own_thread_goes_on() {
    let until = |events: &[Event]| LinuxTimes::of(events).waited_at_most_ns;
    let alone = [call(2, Sys::Munmap, 10, 30), fault(1, 20), fault(1, 100)];
    assert_eq!(until(&alone), 10, "the call ends first");
    let soon = [call(2, Sys::Munmap, 10, 30), fault(1, 20), fault(1, 24)];
    assert_eq!(until(&soon), 4, "the thread goes on first");
    let chain = [
        call(2, Sys::Munmap, 10, 30),
        fault(1, 20),
        call(3, Sys::Mmap, 25, 50),
        call(2, Sys::Mmap, 51, 60),
        fault(1, 100),
    ];
    assert_eq!(until(&chain), 30, "one call follows the other, then there is none");
    let own = [call(1, Sys::Munmap, 10, 12), fault(1, 20), fault(1, 100)];
    assert_eq!(until(&own), 0, "a thread's own calls do not count");
}

#[test]
fn a_call_of_another_process_is_none_of_a_faults() {
    let mut other = call(2, Sys::Munmap, 10, 30);
    other.pid = 2;
    assert_eq!(LinuxTimes::of(&[other, fault(1, 20)]).contended.beside_a_call, 0);
}
