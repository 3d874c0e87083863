//! Limits: how many mappings, how much memory.

use crate::world::{PRIVATE, R, RW, error, oracle, oracle_with_heap_at, outcome, setting};
use interleaf_check::calls::{Call, CallResult, Errno, MapFlags, PAGE, Prot, System, advice};
use interleaf_check::compare::compare;
use interleaf_check::model::Model;
use interleaf_check::setting::Setting;

/// Calls that leave `count` mappings in the main window: a large one, of which every second page gets other
/// rights.
fn many_mappings(setting: &Setting, count: usize) -> Vec<Call> {
    let start = setting.windows[1].start;
    let flags = PRIVATE | MapFlags::FIXED;
    let len = (count as u64 + 16) * PAGE;
    let whole = Call::Mmap { hint: start, len, prot: R, flags };
    // Each change of a page in the middle adds two mappings, one at the start only one.
    let first = u64::from(!count.is_multiple_of(2));
    let pages = (first..).map(|n| 2 * n);
    let changes =
        pages.take(count / 2).map(|n| Call::Mprotect { addr: start + n * PAGE, len: PAGE, prot: RW });
    std::iter::once(whole).chain(changes).collect()
}

#[test]
fn too_many_mappings_are_refused_as_linux_refuses_them() {
    let Some(mut linux) = oracle() else { return };
    let setting = linux.setting().clone();
    let most = setting.max_mappings - setting.foreign_mappings - 3;
    let end = setting.windows[1].start + (most as u64 + 10) * PAGE;
    let split = Call::Mprotect { addr: end, len: PAGE, prot: RW };
    let hole = Call::Munmap { addr: end, len: PAGE };
    let advise = Call::Madvise { addr: end, len: PAGE, advice: advice::RANDOM };
    let new = |n: u64, flags| Call::Mmap {
        hint: end + (10 + 2 * n) * PAGE,
        len: PAGE,
        prot: Prot::EXEC | R,
        flags,
    };
    let replace = Call::Mmap { hint: end, len: PAGE, prot: RW, flags: PRIVATE | MapFlags::FIXED };
    let (fixed, heap) = (PRIVATE | MapFlags::FIXED, Call::Brk { addr: setting.start_brk + PAGE });
    let probes =
        [split, advise, hole, replace, new(0, fixed), heap, new(1, fixed), new(2, fixed), hole, heap];
    let mut model = Model::new(setting.clone());
    let mut refused = 0;
    for below in 0..3 {
        let calls = [many_mappings(&setting, most - below), probes.to_vec()].concat();
        let said = model.run(&calls);
        refused += said.answers.iter().filter(|answer| matches!(answer, CallResult::Error(_))).count();
        assert_eq!(linux.run(&calls), said, "{below} below the limit");
    }
    assert!(refused > 10, "{refused} refused");
}

/// With room for one mapping a change that needs two splits keeps the first, so that a second such call, and
/// a hole in the middle, find no room; whatever is refused then is refused for both counts of mappings.
#[test]
fn a_refused_change_has_used_up_the_last_mapping() {
    let Some(mut linux) = oracle() else { return };
    let setting = linux.setting().clone();
    let most = setting.max_mappings - setting.foreign_mappings - 3;
    let end = setting.windows[1].start + (most as u64 + 6) * PAGE;
    let inside = Call::Mprotect { addr: end, len: PAGE, prot: RW };
    let policy = Call::Mbind { addr: end + 2 * PAGE, len: PAGE, mode: 2, nodes: 1, flags: 0 };
    let calls = [inside, Call::Madvise { addr: end, len: PAGE, advice: advice::DONTDUMP }, policy];
    let hole = Call::Munmap { addr: end + 4 * PAGE, len: PAGE };
    for call in calls {
        for below in 0..4 {
            let calls = [many_mappings(&setting, most - below), vec![call, hole, call]].concat();
            let said = Model::new(setting.clone()).run(&calls);
            assert_eq!(linux.run(&calls), said, "{call} {below} below the limit");
            let [first, second] = [3, 2].map(|back| said.answers[calls.len() - back].clone());
            // One splits and is refused, or finds no room; in either case none is left for the hole.
            let refused = matches!(first, CallResult::Error(_));
            assert_eq!(refused, below < 2, "{below}");
            assert!(!refused || second == error(Errno::ENOMEM));
        }
    }
}

#[test]
fn a_commit_larger_than_memory_is_refused() {
    let memory = setting().memory_pages * PAGE;
    let mmap = |len, flags| outcome(&[Call::Mmap { hint: 0, len, prot: RW, flags }]).answers[0].clone();
    assert_eq!(mmap(memory + PAGE, PRIVATE), error(Errno::ENOMEM));
    assert!(matches!(mmap(memory, PRIVATE), CallResult::Value(_)));
    assert!(matches!(mmap(memory + PAGE, PRIVATE | MapFlags::NORESERVE), CallResult::Value(_)));
}

#[test]
fn a_heap_larger_than_memory_is_refused() {
    // In the usual setting the end of the window is nearer than that.
    let heap = Setting::default().windows[1].start;
    let Some(mut linux) = oracle_with_heap_at(heap) else { return };
    let memory = linux.setting().memory_pages * PAGE;
    let brk = |addr| Call::Brk { addr };
    let calls = [brk(heap + memory + 1), brk(heap + memory), brk(heap + memory + PAGE), brk(heap)];
    let said = linux.run(&calls);
    assert_eq!(said.answers[..2], [CallResult::Value(heap), CallResult::Value(heap + memory)]);
    assert_eq!(Model::new(linux.setting().clone()).run(&calls), said);
}

#[test]
fn accounted_pages_that_are_replaced_are_subtracted_from_a_commit() {
    let (start, memory) = (setting().windows[1].start, setting().memory_pages * PAGE);
    let fixed = |len, prot| Call::Mmap { hint: start, len, prot, flags: PRIVATE | MapFlags::FIXED };
    assert!(matches!(outcome(&[fixed(PAGE, RW), fixed(memory + PAGE, RW)]).answers[1], CallResult::Value(_)));
    assert_eq!(outcome(&[fixed(PAGE, R), fixed(memory + PAGE, RW)]).answers[1], error(Errno::ENOMEM));
    let protect = Call::Mprotect { addr: start, len: memory + PAGE, prot: RW };
    assert_eq!(outcome(&[fixed(memory + PAGE, R), protect]).answers[1], error(Errno::ENOMEM));
}

#[test]
fn equal_systems_show_no_difference() {
    let setting = Setting::default();
    let (mut one, mut other) = (Model::new(setting.clone()), Model::new(setting.clone()));
    assert!(compare(&setting, &mut one, &mut other, &many_mappings(&setting, 9)).is_none());
    assert_eq!(one.run(&many_mappings(&setting, 9)).map.len(), 9);
    assert_eq!(one.run(&many_mappings(&setting, 10)).map.len(), 10);
}
