//! Faults against unmap, the real code on the smallest trees: all executions with two preemptions.
//!
//! CPU 1 runs the space and touches a page, through the test machine's MMU; CPU 0 takes mappings away
//! meanwhile. When the writer's call has returned, CPU 1 must not remember the page; while CPU 1 uses a
//! frame, the frame must be user memory; at the end no leaf is left where nothing is mapped, and every frame
//! is accounted for.

use crate::frame::{AllocRequest, BootMap, Init, Kind, Region, RegionKind};
use crate::machine::testing::{TestCpu, TestMachine, ThreeLevels, TwoLevels, with_leaked};
use crate::machine::{Entry, Format};
use crate::space::edit::VmaEdit;
use crate::space::fault::attempt::attempt;
use crate::space::fault::prepare::Prepared;
use crate::space::fault::trust::Proof;
use crate::space::*;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::{ReadGuard, restock};
use crate::table::{SlotRun, sweep, walk};
use crate::units::{Access, Level, NodeId, PAGE_SIZE, Pfn, VirtAddr, Vpn, VpnRange};
use crate::vma::{Areas, Vma};
use core::cell::Cell;
use loom::thread;
use std::boxed::Box;
use std::sync::atomic::AtomicUsize;

type Space<F> = AddressSpace<'static, TestMachine<F>>;

const PAGE: u64 = PAGE_SIZE as u64;
/// Of the mapping that goes, and its pages.
const START: Vpn = Vpn(1024);
const PAGES: u64 = 2;
/// Pages that one `Pte` table covers.
const TABLE: u64 = 512;

/// What happened in how many executions.
#[derive(Debug, Default)]
struct Seen {
    all: AtomicUsize,
    /// The page was used.
    used: AtomicUsize,
    /// It was not mapped any more.
    refused: AtomicUsize,
    speculated: AtomicUsize,
    fell_back: AtomicUsize,
    /// Speculation ended at a mapping that was not the same any more, and at a table that was detached.
    changed: AtomicUsize,
    detached: AtomicUsize,
}

/// One model.
struct Case<F: Format> {
    path: Path,
    /// What is there before. Runs on CPU 0, then on CPU 1, neither running the space.
    before: fn(&Space<F>),
    /// How CPU 1 resolves its faults.
    fault: fn(&Space<F>, Fault) -> Result<Outcome, FaultError>,
    /// What CPU 0 does.
    writer: fn(&Space<F>),
    /// The page that CPU 1 touches, to write or to read.
    page: Vpn,
    access: Access,
    preemptions: usize,
}

fn layout() -> Layout {
    let user = VpnRange::new(Vpn(16), Vpn(2048));
    let areas = Areas { user, mmap_base: Vpn(2000), legacy_base: Vpn(600) };
    Layout { areas, heap_start: VirtAddr(PAGE << 10), max_mappings: 100, max_commit_pages: 1000 }
}

fn boot_map<F: Format>(machine: &TestMachine<F>) -> BootMap {
    let frames = machine.frames();
    let (start, len_bytes) = (frames.start.addr(), frames.len() * PAGE);
    BootMap::new(&[Region { start, len_bytes, kind: RegionKind::Usable(Init::Zeroed), node: NodeId(0) }])
        .unwrap()
}

fn map<F: Format>(space: &Space<F>, start: Vpn, pages: u64) {
    let request = MapRequest { place: Place::Fixed(start.addr()), ..MapRequest::anonymous(pages * PAGE) };
    space.map(&request).unwrap();
}

fn unmap<F: Format>(space: &Space<F>, start: Vpn, pages: u64) {
    space.unmap(start.addr(), pages * PAGE).unwrap();
}

fn touch<F: Format>(space: &Space<F>, page: Vpn) {
    space.fault(Fault { addr: page.addr(), access: Access::Write }).unwrap();
}

/// CPU 1 touches the page, and touches it again, as a program does.
fn program<F: Format>(machine: &TestMachine<F>, space: &Space<F>, case: &Case<F>, seen: &Seen) {
    let running = space.run();
    for _ in 0..2 {
        while let None = use_page(machine, space, case, seen) {
            let fault = Fault { addr: case.page.addr(), access: case.access };
            match (case.fault)(space, fault) {
                Ok(Outcome::FellBack(reason)) => {
                    seen.fell_back.fetch_add(1, Relaxed);
                    note_reason(reason, seen);
                }
                Ok(_) => drop(seen.speculated.fetch_add(1, Relaxed)),
                Err(_) => {
                    seen.refused.fetch_add(1, Relaxed);
                    drop(running);
                    return;
                }
            }
        }
    }
    drop(running);
}

fn note_reason(reason: Fallback, seen: &Seen) {
    match reason {
        Fallback::VmaChanged => drop(seen.changed.fetch_add(1, Relaxed)),
        Fallback::PmdChanged => drop(seen.detached.fetch_add(1, Relaxed)),
        _ => {}
    }
}

fn use_page<F: Format>(
    machine: &TestMachine<F>,
    space: &Space<F>,
    case: &Case<F>,
    seen: &Seen,
) -> Option<()> {
    TestCpu::take_interrupt();
    let leaf = machine.translate(case.page, case.access)?;
    seen.used.fetch_add(1, Relaxed);
    let memory = space.vm().memory();
    let kind = memory.meta(leaf.pfn).unwrap().state().kind();
    assert!(matches!(kind, Kind::User | Kind::Zero), "a frame in use is {kind:?}");
    Some(())
}

fn explore<F: Format>(case: Case<F>) -> &'static Seen {
    let case: &'static Case<F> = Box::leak(Box::new(case));
    let seen: &'static Seen = Box::leak(Box::default());
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(case.preemptions);
    model.max_branches = 100_000;
    model.check(move || {
        seen.all.fetch_add(1, Relaxed);
        with_leaked(TestMachine::<F>::of_format(96, 2), |machine| {
            with_leaked(Vm::new(machine, boot_map(machine)).unwrap(), |vm| {
                one_execution(machine, vm, case, seen)
            });
        });
    });
    std::eprintln!("{seen:?}");
    seen
}

fn one_execution<F: Format>(
    machine: &'static TestMachine<F>,
    vm: &'static Vm<'static, TestMachine<F>>,
    case: &'static Case<F>,
    seen: &'static Seen,
) {
    let before = Cell::new(0);
    with_leaked(AddressSpace::new(vm, layout(), case.path).unwrap(), |space| {
        machine.run_as(1);
        warm(space);
        machine.run_as(0);
        before.set(vm.memory().check().unwrap().allocated);
        (case.before)(space);
        let reading = vm.rcu.read();
        if let Some(vma) = space.vmas.find(&reading, case.page) {
            assert!(vma.is_live() && vma.anon() == vma.attributes().anon);
        }
        drop(reading);
        restock();
        let cpu1 = thread::spawn(move || {
            machine.run_as(1);
            program(machine, space, case, seen);
        });
        (case.writer)(space);
        let stays = space.is_any_mapped(case.page.addr(), PAGE);
        if !stays {
            assert_forgotten(space, case.page);
        }
        cpu1.join().unwrap();
        assert!(stays || !has_leaf(space, case.page), "a leaf is left where nothing is mapped");
    });
    vm.trim();
    // The root was there when it was counted first.
    assert_eq!(
        vm.memory().check().unwrap().allocated,
        before.get() - 1,
        "frames handed out before and after"
    );
}

/// Fills this CPU's caches, and touches its words before there are threads.
fn warm<F: Format>(space: &Space<F>) {
    let running = space.run();
    let memory = space.vm().memory();
    let frames = [(); 2].map(|()| memory.alloc_frame(AllocRequest::ZEROED).unwrap());
    frames.into_iter().for_each(|frame| memory.free_frame_as(frame, Init::Zeroed));
    assert!(space.fault(Fault { addr: START.addr(), access: Access::Write }).is_err());
    drop(running);
}

fn assert_forgotten<F: Format>(space: &Space<F>, page: Vpn) {
    assert!(!space.vm.machine.has_cached(1, page), "a CPU has a page cached that is gone");
}

fn has_leaf<F: Format>(space: &Space<F>, page: Vpn) -> bool {
    let reading = space.vm.rcu.read();
    walk(&space.table, page, Level::Pte, &reading).entry() != Entry::Absent
}

fn assert_telling(seen: &Seen) {
    let (all, used, refused) = (seen.all.load(Relaxed), seen.used.load(Relaxed), seen.refused.load(Relaxed));
    assert!(used > 0, "the model must see the page used");
    assert!(refused > 0 && refused < all, "the model must see the page refused");
}

/// Only the mapping's own pages: nothing was ever touched.
fn untouched<F: Format>(space: &Space<F>) {
    map(space, START, PAGES);
}

/// The other page of the mapping was touched: the table is there, and dies with the mapping.
fn table_of_its_own<F: Format>(space: &Space<F>) {
    map(space, START, PAGES);
    touch(space, START.add(1));
}

/// Another mapping uses the same table, which stays.
fn table_of_another<F: Format>(space: &Space<F>) {
    map(space, START, PAGES);
    map(space, START.add(8), 1);
    touch(space, START.add(1));
    touch(space, START.add(8));
}

/// The table above is there, the table of the page is not.
fn parent_of_its_own<F: Format>(space: &Space<F>) {
    map(space, START, TABLE + 1);
    touch(space, START.add(TABLE));
}

fn unmap_all<F: Format>(space: &Space<F>) {
    unmap(space, START, TABLE + 1);
}

fn unmap_and_map_again<F: Format>(space: &Space<F>) {
    unmap(space, START, PAGES);
    map(space, START, PAGES);
}

fn case<F: Format>(path: Path, before: fn(&Space<F>), writer: fn(&Space<F>)) -> Case<F> {
    Case {
        path,
        before,
        fault: AddressSpace::fault,
        writer,
        page: START,
        access: Access::Write,
        preemptions: 2,
    }
}

#[test]
fn loom_fault_against_unmap_with_an_absent_table() {
    assert_telling(explore(case::<TwoLevels>(Path::Speculative, untouched, unmap_all)));
}

#[test]
fn loom_fault_against_unmap_with_a_present_table() {
    assert_telling(explore(case::<TwoLevels>(Path::Speculative, table_of_another, |s| {
        unmap(s, START, PAGES)
    })));
}

#[test]
fn loom_fault_against_unmap_with_a_dying_table() {
    assert_telling(explore(case::<TwoLevels>(Path::Speculative, table_of_its_own, unmap_all)));
}

#[test]
fn loom_fault_links_no_table_into_a_dying_one() {
    assert_telling(explore(case::<ThreeLevels>(Path::Speculative, parent_of_its_own, unmap_all)));
}

#[test]
fn loom_fault_against_a_mapping_taken_away_and_made_again() {
    let seen = explore(case::<TwoLevels>(Path::Speculative, table_of_its_own, unmap_and_map_again));
    assert!(seen.detached.load(Relaxed) > 0, "the model must see a fault that meets a detached table");
}

#[test]
fn loom_fault_that_reads_against_unmap() {
    let case = case::<TwoLevels>(Path::Speculative, table_of_its_own, unmap_all);
    assert_telling(explore(Case { access: Access::Read, ..case }));
}

#[test]
fn loom_locked_fault_against_unmap() {
    assert_telling(explore(case::<TwoLevels>(Path::Locked, untouched, unmap_all)));
    assert_telling(explore(case::<TwoLevels>(Path::Locked, table_of_its_own, unmap_all)));
}

/// Broken: believes whatever it read.
struct Believed;

impl<M: Machine> Proof<M> for Believed {
    fn confirm<'g>(
        &self,
        _space: &'g AddressSpace<'_, M>,
        vma: &'g Vma<M::Cpu>,
        _page: Vpn,
        _reading: &'g ReadGuard<'_, M::Cpu>,
    ) -> Option<&'g Vma<M::Cpu>> {
        Some(vma)
    }
}

#[test]
#[should_panic = "a leaf is left where nothing is mapped"]
fn loom_fault_that_does_not_ask_whether_its_mapping_holds_fails() {
    let case = case::<TwoLevels>(Path::Speculative, table_of_another, |s| unmap(s, START, PAGES));
    let fault = |space: &Space<_>, fault| {
        let done = attempt(space, fault, &Believed, &mut Prepared::new(space.vm));
        done.map(|_| Outcome::Speculated).map_err(|_| FaultError::NotMapped)
    };
    explore(Case { fault, ..case });
}

#[test]
#[should_panic = "a leaf is left where nothing is mapped"]
fn loom_writer_that_clears_before_it_marks_fails() {
    explore(case::<TwoLevels>(Path::Speculative, table_of_another, |space| {
        let range = VpnRange::new(START, START.add(PAGES));
        let guard = space.write(range);
        space.zap(guard.held(), range);
        VmaEdit::new(space, &guard).replace(range, &[], range).unwrap();
    }));
}

/// Flushes the pages of the mapping, whatever their entries hold.
fn flush(space: &Space<TwoLevels>) {
    let range = VpnRange::new(START, START.add(PAGES));
    let guard = space.write(range);
    space.gather(guard.held(), range, |gather| gather.weakened(range));
}

/// Marks, publishes, clears the leaves, and hands each frame to `then`.
fn unmap_by_hand(space: &Space<TwoLevels>, mut then: impl FnMut(Pfn)) {
    let range = VpnRange::new(START, START.add(PAGES));
    let guard = space.write(range);
    VmaEdit::new(space, &guard).replace(range, &[], range).unwrap();
    sweep(&space.table, range, |run: SlotRun<'_, '_, TestMachine<TwoLevels>>| {
        for slot in run.slots.clone() {
            if let Entry::Leaf(leaf) = run.table.clear(slot) {
                then(leaf.pfn);
            }
        }
    });
}

#[test]
#[should_panic = "a CPU has a page cached that is gone"]
fn loom_writer_that_does_not_flush_fails() {
    explore(case::<TwoLevels>(Path::Speculative, table_of_another, |space| {
        let mut frames = std::vec::Vec::new();
        unmap_by_hand(space, |frame| frames.push(frame));
        assert_forgotten(space, START);
        flush(space);
        frames.into_iter().for_each(|frame| space.vm.memory.put(frame));
    }));
}

#[test]
#[should_panic = "a frame in use is"]
fn loom_writer_that_frees_before_it_flushes_fails() {
    explore(case::<TwoLevels>(Path::Speculative, table_of_another, |space| {
        unmap_by_hand(space, |frame| space.vm.memory.put(frame));
        flush(space);
    }));
}
