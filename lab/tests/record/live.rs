//! Programs recorded here and now.

use crate::{Recorded, compiled, may_record, model, recording, try_recording};
use interleaf_lab::trace::record::Refusal;
use interleaf_lab::trace::{Cached, Event, Extent, Inode, Kind, Mode, Sys};
use std::collections::BTreeSet;

const STUNTS: &str = "tests/record/programs/stunts.c";

/// What must hold of every recording.
fn check(recorded: &Recorded) {
    let Recorded { header, events, footer } = recorded;
    let account = footer.account;
    assert_eq!((footer.lost, account.unexplained), (0, 0), "{account:?}");
    assert_eq!(account.recorded, footer.faults);
    assert_eq!(account.recorded, account.completed + account.signalled + account.refused);
    assert_eq!(account.counted, account.completed + account.filled);
    let complaints = model::check(header, events);
    assert!(complaints.is_empty(), "{:#?}", &complaints[..complaints.len().min(5)]);
    let processes: BTreeSet<u32> = footer.processes.iter().map(|p| p.pid).collect();
    assert_eq!(
        processes,
        events.iter().map(|e| e.pid).chain([header.pid]).collect(),
        "processes seen by both"
    );
    assert_eq!(final_maps(recorded), footer.processes.iter().filter(|p| p.final_map).count());
    let threads: u32 = footer.processes.iter().map(|p| p.threads).sum();
    let made = events.iter().filter(|e| matches!(e.kind, Kind::Task(_))).count();
    assert_eq!(made + 1, threads as usize, "a task event for every thread but the first");
}

fn final_maps(recorded: &Recorded) -> usize {
    let ends = recorded.events.iter().filter(|e| matches!(&e.kind, Kind::Exit(x) if x.image.is_some()));
    ends.count()
}

fn calls(recorded: &Recorded, sys: Sys) -> usize {
    recorded.events.iter().filter(|e| matches!(&e.kind, Kind::Call(c) if c.sys == sys)).count()
}

fn stunt(name: &str) -> Option<Recorded> {
    if !may_record(name) {
        return None;
    }
    let recorded = recording(&[&compiled(name, STUNTS), name]);
    check(&recorded);
    Some(recorded)
}

#[test]
fn the_page_cache_is_followed_where_the_kernel_tells_of_it() {
    if !may_record("the_page_cache_is_followed_where_the_kernel_tells_of_it") {
        return;
    }
    let recorded = recording(&["true"]);
    if !recorded.header.page_cache {
        return;
    }
    let program = &recorded.header.image.mappings[0];
    let inode = Inode::of_map(&program.device, program.inode);
    let is_its = |event: &Event| match &event.kind {
        Kind::File(facts) => Some(facts.inode) == inode && facts.len_bytes > 0,
        Kind::Cache(change) => Some(change.inode) == inode && change.cached == Cached::Found,
        _ => false,
    };
    assert!(recorded.events.iter().filter(|event| is_its(event)).count() >= 2, "its length and its pages");
    let mapped = recorded.events.iter().filter_map(|event| match &event.kind {
        Kind::Call(call) => call.file.as_ref().map(|_| call.inode),
        _ => None,
    });
    assert!(mapped.into_iter().all(|inode| inode.is_some()), "each file that was mapped has an inode");
}

#[test]
fn a_small_program_is_recorded_whole() {
    if !may_record("a_small_program_is_recorded_whole") {
        return;
    }
    let recorded = recording(&["true"]);
    check(&recorded);
    let process = recorded.footer.processes[0];
    assert_eq!((process.faults, recorded.footer.processes.len()), (process.counted, 1));
    assert!(recorded.header.image.program.ends_with("true") && recorded.header.environment_bytes > 0);
    assert!(recorded.header.host.settings.iter().any(|(name, _)| name.ends_with("overcommit_memory")));
}

#[test]
fn a_program_that_prints_its_own_map_printed_the_final_one() {
    if !may_record("a_program_that_prints_its_own_map_printed_the_final_one") {
        return;
    }
    let file = format!("{}/own-map", env!("CARGO_TARGET_TMPDIR"));
    let script = format!("while read -r line; do echo \"$line\"; done < /proc/self/maps > {file}");
    let recorded = recording(&["sh", "-c", &script]);
    check(&recorded);
    let mut images = recorded
        .events
        .iter()
        .filter_map(|e| if let Kind::Exit(x) = &e.kind { x.image.as_ref() } else { None });
    let own: Vec<String> = images.next_back().unwrap().mappings.iter().map(|m| m.line()).collect();
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = std::fs::read_to_string(file).unwrap();
    let printed: Vec<String> = text.lines().map(words).filter(|l| !l.ends_with("[vsyscall]")).collect();
    assert_eq!(own, printed);
}

#[test]
fn a_shell_and_all_it_forks_are_seen() {
    if !may_record("a_shell_and_all_it_forks_are_seen") {
        return;
    }
    let recorded =
        recording(&["sh", "-c", "for i in 1 2 3; do (true; exit $i); ls / | wc -l; done >/dev/null; exit 3"]);
    check(&recorded);
    assert_eq!(recorded.footer.status >> 8, 3);
    assert_eq!((recorded.footer.processes.len(), final_maps(&recorded)), (10, 10));
    assert_eq!(calls(&recorded, Sys::ExitGroup), 10);
    let execs = recorded.events.iter().filter(|e| matches!(e.kind, Kind::Exec(_))).count();
    assert_eq!(execs, 6, "ls and wc, three times");
}

#[test]
fn threads_on_the_allocator_are_recorded_in_an_order_that_explains_itself() {
    if !may_record("threads_on_the_allocator_are_recorded_in_an_order_that_explains_itself") {
        return;
    }
    let recorded = recording(&[&compiled("churn", "traces/programs/churn.c"), "4", "800"]);
    check(&recorded);
    assert_eq!(recorded.footer.processes[0].threads, 5);
}

#[test]
fn a_program_executed_by_a_thread_replaces_the_process() {
    let Some(recorded) = stunt("exec_from_thread") else { return };
    assert_eq!((recorded.footer.processes.len(), final_maps(&recorded)), (1, 1));
    let exec = recorded.events.iter().find(|e| matches!(e.kind, Kind::Exec(_))).unwrap();
    assert_eq!(exec.tid, recorded.header.pid);
    let call =
        recorded.events.iter().filter_map(|e| if let Kind::Call(c) = &e.kind { Some(c) } else { None });
    assert!(
        call.into_iter().any(|c| c.sys == Sys::Execve && c.result == Some(0)),
        "the call that did it returned"
    );
}

#[test]
fn children_in_the_same_memory_are_told_from_others() {
    let Some(recorded) = stunt("spawn") else { return };
    let tasks =
        recorded.events.iter().filter_map(|e| if let Kind::Task(t) = &e.kind { Some(*t) } else { None });
    let tasks: Vec<_> = tasks.collect();
    assert_eq!(tasks.len(), 2);
    assert!(tasks.iter().all(|t| t.shares_memory() && !t.is_thread()), "{tasks:?}");
}

#[test]
fn a_process_that_is_killed_still_has_its_final_map() {
    let Some(recorded) = stunt("die") else { return };
    assert_eq!((recorded.footer.status & 0x7f, final_maps(&recorded)), (9, 1));
}

#[test]
fn a_fault_that_ends_in_a_signal_is_followed_by_it() {
    let Some(recorded) = stunt("segfault") else { return };
    assert_eq!((recorded.footer.account.signalled, recorded.footer.status >> 8), (1, 40 + 11));
    let at = recorded
        .events
        .iter()
        .position(|e| matches!(&e.kind, Kind::Signal(s) if s.address == 0x1234))
        .unwrap();
    assert!(matches!(&recorded.events[at - 1].kind, Kind::Fault(f) if f.address == 0x1234));
}

#[test]
fn pages_filled_without_an_exception_are_in_the_account_to_the_page() {
    let Some(recorded) = stunt("populate") else { return };
    let account = recorded.footer.account;
    assert_eq!((account.filled, account.refused), (256 + 64 + 128, 2), "{account:?}");
    assert_eq!(account.filled_otherwise, 0);
}

#[test]
fn pages_that_the_kernel_looks_up_by_hand_are_a_term_of_their_own() {
    let Some(recorded) = stunt("by_hand") else { return };
    let account = recorded.footer.account;
    assert_eq!(account.filled_otherwise, 64, "{account:?}");
}

#[test]
fn faults_of_the_kernel_on_the_program_s_behalf_are_recorded() {
    let Some(recorded) = stunt("kernel_writes") else { return };
    let kernel =
        recorded.events.iter().filter(|e| matches!(&e.kind, Kind::Fault(f) if f.mode == Mode::Kernel));
    assert!(kernel.count() >= 64);
}

#[test]
fn the_map_is_read_when_the_last_thread_leaves_not_the_first() {
    let Some(recorded) = stunt("first_leaves") else { return };
    let last = recorded.events.iter().rev().find(|e| matches!(e.kind, Kind::Exit(_))).unwrap();
    assert_ne!(last.tid, recorded.header.pid);
    assert!(matches!(&last.kind, Kind::Exit(x) if x.image.is_some()));
}

#[test]
fn a_program_that_is_stopped_and_continued_comes_to_its_end() {
    let Some(recorded) = stunt("stopped") else { return };
    assert_eq!((recorded.footer.status, recorded.footer.processes.len()), (0, 2));
}

#[test]
fn a_mapping_pulled_away_under_a_thread_is_pulled_away_at_one_instant() {
    let Some(recorded) = stunt("pull_away") else { return };
    assert_eq!(recorded.footer.account.signalled, 200);
}

#[test]
fn rings_too_small_for_the_program_fail_the_recording() {
    if !may_record("rings_too_small_for_the_program_fail_the_recording") {
        return;
    }
    let churn = compiled("churn-lost", "traces/programs/churn.c");
    match try_recording(&[&churn, "4", "800"], Extent::Whole, 4096).err() {
        Some(Refusal::Lost(what)) => assert!(what.contains("records did not fit"), "{what}"),
        other => panic!("a ring of one page lost nothing? {other:?}"),
    }
}

#[test]
fn without_privilege_user_faults_and_calls_are_recorded_and_marked() {
    let recorded = match try_recording(&["sh", "-c", "ls / | wc -l"], Extent::Partial, 1 << 19) {
        Err(Refusal::Privilege(why)) => {
            return interleaf_lab::os::lacking::note(
                "without_privilege_user_faults_and_calls_are_recorded_and_marked",
                &why,
            );
        }
        other => other.unwrap(),
    };
    assert_eq!((recorded.header.extent, recorded.footer.processes.len()), (Extent::Partial, 3));
    assert_eq!(final_maps(&recorded), 3);
    let complaints = model::check(&recorded.header, &recorded.events);
    assert!(complaints.is_empty(), "{complaints:#?}");
    assert!(calls(&recorded, Sys::Mmap) > 20 && calls(&recorded, Sys::Execve) >= 2);
}
