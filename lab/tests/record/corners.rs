//! Programs that go to the corners of Linux's memory calls, recorded here and now, and replayed: every
//! difference has its reason.

use crate::{compiled, may_record, try_recording};
use interleaf::space::Path;
use interleaf::vma::HugePolicy;
use interleaf_lab::replay::{DifferenceKind, Replay, Report};
use interleaf_lab::trace::Extent;
use interleaf_lab::trace::record::Refusal;

const CORNERS: &str = "tests/record/programs/corners.c";

/// Records a corner and replays it. `None` where that cannot be recorded here.
fn corner(name: &str, extent: Extent) -> Option<Replay> {
    if extent == Extent::Whole && !may_record(name) {
        return None;
    }
    let program = compiled(&format!("corner-{name}-{extent:?}"), CORNERS);
    match try_recording(&[&program, name], extent, 64 << 20) {
        Err(Refusal::Privilege(why)) if extent == Extent::Partial => {
            interleaf_lab::os::lacking::note(name, &why);
            None
        }
        recorded => {
            let recorded = recorded.unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
            assert_eq!(recorded.footer.status, 0, "{name}");
            Some(Replay::of(recorded.header, recorded.events).unwrap())
        }
    }
}

fn check(name: &str, replay: &Replay) -> Report {
    let report = replay.check(Path::Speculative, |_| ()).unwrap();
    assert_eq!(report.unexplained, 0, "{name}: {}", report.text());
    report
}

/// What a corner came to with the recorded setting of huge pages; with others nothing is unexplained either.
fn replayed(name: &str) -> Option<Report> {
    let replay = corner(name, Extent::Whole)?;
    let report = check(name, &replay);
    let always = replay.with_huge_pages(HugePolicy::Always).unwrap();
    check(name, &always);
    check(name, &always.with_huge_pages(HugePolicy::Never).unwrap());
    Some(report)
}

#[test]
fn calls_that_end_with_their_process_are_not_carried_out() {
    replayed("killed_in_calls");
}

#[test]
fn rights_are_given_and_taken_while_others_store() {
    replayed("rights_given");
}

#[test]
fn calls_that_other_memory_refuses_have_done_what_lies_before() {
    for name in ["across_special", "read_only_file"] {
        let Some(report) = replayed(name) else { return };
        assert_eq!(report.maps.agreed, report.maps.of, "{name}: {}", report.text());
    }
}

#[test]
fn tables_and_huge_pages_come_and_go_as_linux_has_them() {
    for name in ["table_emptied", "cut_after_load"] {
        replayed(name);
    }
}

#[test]
fn memory_moves_where_linux_moves_it() {
    for name in ["file_moved", "left_behind"] {
        replayed(name);
    }
}

#[test]
fn guards_refuse_what_linux_refuses() {
    let Some(report) = replayed("guards") else { return };
    // Kernels before 6.13 have none.
    assert!([0, 8].contains(&report.count_of(DifferenceKind::ImposedGuard)), "{}", report.text());
}

#[test]
fn stacks_of_threads_grow_as_far_as_in_linux() {
    let Some(report) = replayed("growing_stacks") else { return };
    assert!(report.faults.stack_growths > 100, "{}", report.text());
}

#[test]
fn memory_that_may_only_be_executed_or_has_a_key() {
    replayed("execute_only");
}

#[test]
fn the_kernel_writes_to_a_stack_that_is_not_there_yet() {
    replayed("frame_on_absent_stack");
}

#[test]
fn locked_memory_is_dropped_on_demand() {
    replayed("locked_dropped");
}

#[test]
fn a_recording_without_privilege_knows_what_signals_tell() {
    for name in ["store_refused", "guards", "rights_given"] {
        if let Some(replay) = corner(name, Extent::Partial) {
            check(name, &replay);
        }
    }
    replayed("store_refused");
}
