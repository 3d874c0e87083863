//! Faults against unmap, the real code on the smallest trees: all executions with two preemptions.
//!
//! CPU 1 runs the space and touches a page, through the test machine's MMU; CPU 0 takes mappings away
//! meanwhile. When the writer's call has returned, CPU 1 must not remember the page; while CPU 1 uses a
//! frame, the frame must be user memory; at the end no leaf is left where nothing is mapped, and every frame
//! is accounted for.

use crate::frame::{IfShared, Unhooked};
use crate::machine::testing::{TestMachine, ThreeLevels, TwoLevels};
use crate::machine::{Format, Machine};
use crate::space::edit::{VmaEdit, Zap};
use crate::space::fault::attempt::Proof;
use crate::space::fault::prepared::Prepared;
use crate::space::models::world::*;
use crate::space::*;
use crate::sync::ReadGuard;
use crate::sync::atomic::Ordering::Relaxed;
use crate::table::{SlotRun, sweep};
use crate::units::{Access, Vpn, VpnRange};
use crate::vma::Vma;

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
        first: First::Writer,
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
    let case = case::<TwoLevels>(Path::Speculative, table_of_its_own, unmap_and_map_again);
    let seen = explore(Case { first: First::Program, ..case });
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

/// With the mapping's record held: never asked again whether it is live, and the writer waits.
#[test]
fn loom_fault_that_holds_its_mapping_against_unmap() {
    assert_telling(explore(case::<TwoLevels>(Path::VmaLock, table_of_another, |s| unmap(s, START, PAGES))));
}

#[test]
fn loom_fault_that_holds_its_mapping_against_unmap_with_a_dying_table() {
    assert_telling(explore(case::<TwoLevels>(Path::VmaLock, table_of_its_own, unmap_all)));
}

#[test]
fn loom_fault_that_holds_its_mapping_against_unmap_with_an_absent_table() {
    assert_telling(explore(case::<TwoLevels>(Path::VmaLock, untouched, unmap_all)));
}

/// Broken: never checks the mapping again, and does not hold it.
struct Believed;

impl<M: Machine> Proof<M> for Believed {
    type Hold<'g> = ();

    fn hold<'g>(&self, _vma: &'g Vma<M::Cpu>, _reading: &'g ReadGuard<'_, M::Cpu>) -> Option<()> {
        Some(())
    }

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
        let done = space.faults().attempt(fault, &Believed, &mut Prepared::new(space.vm));
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
        Zap::of_contents(&space.entries).run(guard.token(), range);
        VmaEdit::new(&space.mappings, &guard).replace(range, &[], range).unwrap();
    }));
}

/// Flushes the pages of the mapping, without reading their entries.
fn flush(space: &Space<TwoLevels>) {
    let range = VpnRange::new(START, START.add(PAGES));
    let guard = space.write(range);
    space.entries.gather(guard.token(), range, |gather| gather.need_flush(range));
}

/// Marks, publishes, clears the leaves, and hands each frame to `then`.
fn unmap_by_hand(space: &Space<TwoLevels>, mut then: impl FnMut(Unhooked)) {
    let range = VpnRange::new(START, START.add(PAGES));
    let guard = space.write(range);
    VmaEdit::new(&space.mappings, &guard).replace(range, &[], range).unwrap();
    sweep(&space.entries.table, range, |run: SlotRun<'_, '_, TestMachine<TwoLevels>>| {
        run.unhook_each(&mut then, |_| IfShared::Add, |then, unhooked| then(unhooked));
    });
}

#[test]
#[should_panic = "a CPU has a page cached that is gone"]
fn loom_writer_that_does_not_flush_fails() {
    explore(case::<TwoLevels>(Path::Speculative, table_of_another, |space| {
        let mut frames = std::vec::Vec::new();
        unmap_by_hand(space, |unhooked| frames.push(unhooked));
        assert_forgotten(space, START);
        flush(space);
        frames.into_iter().for_each(|unhooked| unhooked.free_unflushed(&space.vm.memory));
    }));
}

#[test]
#[should_panic = "a frame in use is"]
fn loom_writer_that_frees_before_it_flushes_fails() {
    explore(case::<TwoLevels>(Path::Speculative, table_of_another, |space| {
        unmap_by_hand(space, |unhooked| unhooked.free_unflushed(&space.vm.memory));
        flush(space);
    }));
}
