//! Replay: the shipped programs run again as Linux ran them, and what differs is seen.

use interleaf::space::Path;
use interleaf_lab::replay::{DifferenceKind, Replay, Report};
use interleaf_lab::trace::{
    Access, Call, Cause, Event, Fault, Header, Host, Image, Kind, Layout, Mapping, Mode, NewTask,
    ProcessExit, Signal, Started, Sys, TraceReader,
};
use std::path::PathBuf;
use std::sync::Arc;

mod accounting;
mod conclusion;
mod cost;
mod files;
mod forks;
mod hostile;
mod huge;
mod huge_calls;
mod huge_sizes;
mod imposed;
mod partial;
mod refused;
mod segments;
mod threads;
mod unbuilt;

fn shipped(name: &str) -> Replay {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("traces").join(name);
    Replay::read(TraceReader::open(&file).unwrap()).unwrap()
}

/// Replays on one path; nothing unexplained, and the library's own account adds up.
fn replayed(replay: &Replay, path: Path) -> Report {
    let report = replay.check(path, |_| ()).unwrap();
    assert_eq!(report.events + report.left_out.events(), report.recorded);
    assert_eq!(report.unexplained, 0, "{}", report.text());
    let fell_back: u64 = report.faults.fell_back.iter().map(|(_, count)| count).sum();
    let sum = report.faults.speculated + report.faults.locked + fell_back + report.faults.errors;
    assert_eq!(sum, report.faults.raised);
    assert_eq!(report.maps.agreed, report.maps.of);
    report
}

#[test]
fn python_runs_again_as_linux_ran_it() {
    let report = replayed(&shipped("python.trace"), Path::Speculative);
    assert_eq!(report.lives.len(), 2, "python, and the sort that it started");
    assert_eq!(report.performed, 13_321);
    assert_eq!(report.maps.of, 2);
    assert_eq!(report.places.agreed, report.places.of);
}

#[test]
fn sqlite_runs_again_as_linux_ran_it() {
    let report = replayed(&shipped("sqlite.trace"), Path::Speculative);
    assert_eq!((report.performed, report.maps.of), (2_257, 1));
    // The ledger, 3 MiB: its file system asks for a huge-page boundary.
    assert_eq!(report.count_of(DifferenceKind::FilePlace), 1);
    assert_eq!(report.places.agreed + 1, report.places.of);
}

#[test]
fn four_threads_on_an_allocator_run_again_as_linux_ran_them() {
    let report = replayed(&shipped("churn.trace"), Path::Speculative);
    assert_eq!((report.performed, report.maps.of), (38_237, 1));
    // Calls of two threads under way at the same time took effect in an order that was not recorded.
    let meanwhile = report.count_of(DifferenceKind::Meanwhile);
    assert_eq!((meanwhile, report.places.agreed + meanwhile), (103, report.places.of));
    assert_eq!(report.faults.speculated, report.faults.raised, "nothing to wait for on one CPU");
}

#[test]
fn a_shell_and_pythons_processes_run_again_with_their_forks() {
    let report = replayed(&shipped("fork.trace"), Path::Speculative);
    assert_eq!((report.events, report.lives.len(), report.maps.of), (5_481, 13, 11));
    assert_eq!((report.forks, report.unexplained), (9, 0));
    assert!(report.frames_copied > 0 && report.frames_reused > report.frames_copied, "{}", report.text());
    let locked = replayed(&shipped("fork.trace"), Path::Locked);
    assert_eq!(locked.frames_copied, report.frames_copied);
    assert_eq!(locked.frames_reused, report.frames_reused);
}

#[test]
fn the_locked_path_comes_to_the_same() {
    let replay = shipped("sqlite.trace");
    let (locked, speculated) = (replayed(&replay, Path::Locked), replayed(&replay, Path::Speculative));
    assert_eq!((locked.faults.speculated, speculated.faults.locked), (0, 0));
    assert_eq!(locked.faults.raised, speculated.faults.raised);
    assert_eq!(locked.frames_zeroed, speculated.frames_zeroed);
}

// A program made up: one page of a file, a stack, and what the test says.

const PID: u32 = 10;
const TEXT: u64 = 0x40_0000;
const STACK: u64 = 0x7fff_0000_0000;
const TOP: u64 = 0x7000_0000_0000;

fn mapping(start: u64, pages: u64, rights: &str, name: &str, flags: &str) -> Mapping {
    Mapping {
        start,
        end: start + (pages << 12),
        rights: rights.into(),
        device: "00:00".into(),
        inode: u64::from(name.starts_with('/')),
        name: name.into(),
        flags: flags.into(),
        ..Mapping::default()
    }
}

fn image(more: Vec<Mapping>) -> Image {
    let mut mappings = vec![mapping(TEXT, 1, "r-xp", "/bin/x", "rd ex")];
    mappings.extend(more);
    let layout = Layout { start_brk: 0x60_0000, start_stack: STACK, ..Layout::default() };
    Image { program: "/bin/x".into(), called: "x".into(), layout, mappings }
}

fn at_exec() -> Image {
    image(vec![
        mapping(TOP - 0x1000, 1, "r--p", "/lib/loader", "rd"),
        mapping(STACK - 0x2000, 4, "rw-p", "[stack]", "rd wr gd ac"),
    ])
}

fn header() -> Header {
    let host = Host { page_bytes: 4096, memory_bytes: 1 << 34, ..Host::default() };
    Header { pid: PID, host, image: at_exec(), ..Header::default() }
}

fn program(events: Vec<Event>) -> Replay {
    Replay::of(header(), events).unwrap()
}

fn at(pid: u32, kind: Kind) -> Event {
    Event { time_ns: 0, pid, tid: pid, kind }
}

fn call(sys: Sys, args: [u64; 6], result: i64) -> Event {
    at(
        PID,
        Kind::Call(Call { sys, args, result: Some(result), start_ns: 0, end_ns: 0, file: None, inode: None }),
    )
}

fn anonymous(pages: u64, result: u64) -> Event {
    call(Sys::Mmap, [0, pages << 12, 3, 0x22, u64::MAX, 0], result as i64)
}

fn fault(address: u64, access: Access, cause: Cause) -> Event {
    at(PID, Kind::Fault(Fault { address, access, mode: Mode::User, cause }))
}

fn exit(more: Vec<Mapping>) -> Event {
    let mut image = image(more);
    image.mappings.push(mapping(TOP - 0x1000, 1, "r--p", "/lib/loader", "rd"));
    image.mappings.push(mapping(STACK - 0x2000, 4, "rw-p", "[stack]", "rd wr gd ac"));
    at(PID, Kind::Exit(ProcessExit { status: 0, image: Some(Arc::new(image)) }))
}

fn private(start: u64, pages: u64) -> Mapping {
    mapping(start, pages, "rw-p", "", "rd wr mr mw me ac")
}

fn check(events: Vec<Event>) -> Report {
    let recorded = events.len() as u64;
    let report = program(events).check(Path::Speculative, |_| ()).unwrap();
    assert_eq!((report.events + report.left_out.events(), report.recorded), (recorded, recorded));
    report
}

#[test]
fn a_program_that_went_alike_has_no_differences() {
    let at = TOP - 0x3000;
    let events =
        vec![anonymous(2, at), fault(at + 5, Access::Write, Cause::Absent), exit(vec![private(at, 2)])];
    let report = check(events);
    assert!(report.differences.is_empty(), "{}", report.text());
    assert_eq!((report.performed, report.faulted, report.frames_zeroed), (1, 1, 1));
    assert_eq!((report.places.agreed, report.maps.agreed), (1, 1));
}

#[test]
fn a_mapping_put_elsewhere_is_seen_and_the_recorded_place_holds() {
    let at = TOP - 0x9000;
    let report = check(vec![anonymous(2, at), exit(vec![private(at, 2)])]);
    assert_eq!(report.count_of(DifferenceKind::Place), 1);
    assert_eq!((report.unexplained, report.maps.agreed), (1, 1), "{}", report.text());
    let evidence = report.evidence.unwrap();
    assert!(evidence.events[0].starts_with("> ") && evidence.events[0].contains("mmap"), "{evidence:?}");
    assert!(!evidence.linux.is_empty() && !evidence.ours.is_empty());
}

/// A mapping above is unmapped by another thread from 10 to 20 ns; another is asked for from `start_ns`.
fn places_while_another_thread_unmaps(start_ns: u64) -> Report {
    let (above, below) = (TOP - 0x3000, TOP - 0x5000);
    let with = |event: Event, tid, start_ns, end_ns| match event.kind {
        Kind::Call(call) => Event { tid, kind: Kind::Call(Call { start_ns, end_ns, ..call }), ..event },
        _ => event,
    };
    let unmap = call(Sys::Munmap, [above, 0x2000, 0, 0, 0, 0], 0);
    let events = vec![
        with(anonymous(2, above), PID, 0, 1),
        with(unmap, PID + 1, 10, 20),
        with(anonymous(2, below), PID, start_ns, start_ns + 5),
        exit(vec![private(below, 2)]),
    ];
    check(events)
}

#[test]
fn a_place_depends_on_calls_of_other_threads_only_while_they_are_under_way() {
    let during = places_while_another_thread_unmaps(18);
    assert_eq!((during.unexplained, during.count_of(DifferenceKind::Meanwhile)), (0, 1));
    let after = places_while_another_thread_unmaps(21);
    assert_eq!((after.unexplained, after.count_of(DifferenceKind::Place)), (1, 1));
}

#[test]
fn an_error_that_linux_did_not_give_is_seen() {
    let events = vec![call(Sys::Munmap, [0x5000, 0, 0, 0, 0, 0], 0), exit(vec![])];
    assert_eq!(check(events).count_of(DifferenceKind::Answer), 1);
    let events = vec![call(Sys::Munmap, [0x5000, 0, 0, 0, 0, 0], -22), exit(vec![])];
    assert_eq!(check(events).unexplained, 0);
}

#[test]
fn final_maps_that_differ_are_seen() {
    let at = TOP - 0x3000;
    let report = check(vec![anonymous(2, at), exit(vec![private(at, 1)])]);
    assert_eq!(report.count_of(DifferenceKind::Map), 1, "{}", report.text());
    let report = check(vec![anonymous(2, at), exit(vec![private(at, 1), private(at + 0x1000, 1)])]);
    assert_eq!(report.count_of(DifferenceKind::Edge), 1, "{}", report.text());
    let odd = mapping(at, 2, "rw-p", "", "rd wr mr mw me ac hg");
    let report = check(vec![anonymous(2, at), exit(vec![odd])]);
    assert_eq!(report.count_of(DifferenceKind::Attributes), 1, "{}", report.text());
}

#[test]
fn a_fault_on_a_page_that_is_present_is_seen() {
    let at = TOP - 0x3000;
    let twice = fault(at, Access::Write, Cause::Absent);
    let report = check(vec![anonymous(2, at), twice.clone(), twice, exit(vec![private(at, 2)])]);
    assert_eq!(report.count_of(DifferenceKind::NoFault), 1);
    let forbidden = fault(at, Access::Write, Cause::Protection);
    let report = check(vec![anonymous(2, at), forbidden, exit(vec![private(at, 2)])]);
    assert_eq!(report.count_of(DifferenceKind::Cause), 1);
}

#[test]
fn a_fault_that_the_kernel_took_twice_is_explained() {
    let at = TOP - 0x3000;
    let twice = |mode| {
        let taken = Fault { address: at, access: Access::Write, mode, cause: Cause::Absent };
        let taken = self::at(PID, Kind::Fault(taken));
        check(vec![anonymous(2, at), taken.clone(), taken])
    };
    let kernel = twice(Mode::Kernel);
    assert_eq!((kernel.unexplained, kernel.count_of(DifferenceKind::KernelRetried)), (0, 1));
    assert_eq!(twice(Mode::User).count_of(DifferenceKind::NoFault), 1);
}

#[test]
fn a_wild_access_deserves_its_signal_and_no_other() {
    let wild = fault(0x1234_5678, Access::Read, Cause::Absent);
    let signal = at(PID, Kind::Signal(Signal { number: 11, code: 1, address: 0x1234_5678 }));
    assert_eq!(check(vec![wild.clone(), signal, exit(vec![])]).unexplained, 0);
    assert_eq!(check(vec![wild, exit(vec![])]).count_of(DifferenceKind::Refused), 1);
    let fine = fault(STACK, Access::Write, Cause::Absent);
    let signal = at(PID, Kind::Signal(Signal { number: 11, code: 2, address: STACK }));
    assert_eq!(check(vec![fine, signal, exit(vec![])]).count_of(DifferenceKind::Allowed), 1);
}

#[test]
fn the_stack_grows_where_it_is_touched_below_its_start() {
    let mut last = exit(vec![]);
    let Kind::Exit(ProcessExit { image: Some(image), .. }) = &mut last.kind else { unreachable!() };
    let image = Arc::get_mut(image).unwrap();
    image.mappings.last_mut().unwrap().start -= 0x3000;
    let report = check(vec![fault(STACK - 0x4fff, Access::Write, Cause::Absent), last]);
    assert_eq!((report.unexplained, report.faults.stack_growths), (0, 1), "{}", report.text());
}

#[test]
fn memory_that_mremap_moved_keeps_its_pages() {
    let (old, new) = (TOP - 0x3000, TOP - 0x8000);
    let moved = call(Sys::Mremap, [old, 0x2000, 0x5000, 1, 0, 0], new as i64);
    let events = vec![
        anonymous(2, old),
        fault(old + 0x1000, Access::Write, Cause::Absent),
        moved,
        fault(new + 0x2000, Access::Write, Cause::Absent),
        fault(new, Access::Write, Cause::Absent),
        exit(vec![private(new, 5)]),
    ];
    let report = check(events);
    assert!(report.differences.is_empty(), "{}", report.text());
    assert_eq!(report.frames_zeroed, 4, "the page that moved has a frame of its own");
    assert_eq!((report.places.agreed, report.places.of), (2, 2));
}

#[test]
fn the_child_of_a_vfork_acts_in_its_parents_memory_until_exec() {
    let child = 11;
    let task = at(PID, Kind::Task(NewTask { tid: child, flags: NewTask::VM | NewTask::VFORK }));
    let borrowed = at(
        child,
        Kind::Fault(Fault { address: STACK, access: Access::Write, mode: Mode::User, cause: Cause::Absent }),
    );
    let exec = at(child, Kind::Exec(Started { image: Arc::new(at_exec()) }));
    let again = fault(STACK, Access::Write, Cause::Absent);
    let report = check(vec![task, borrowed, exec, again, exit(vec![])]);
    assert_eq!(report.count_of(DifferenceKind::OtherThread), 1, "{}", report.text());
    assert_eq!((report.performed, report.lives.len()), (2, 2));
}
