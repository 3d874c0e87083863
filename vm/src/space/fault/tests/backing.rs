//! Faults on shared memory that lack memory for the index of its pages.

use super::install::with_space;
use crate::space::fault::prepared::Prepared;
use crate::space::{Advice, Fault, FaultError, MapRequest, Place, Sharing};
use crate::units::{Access, PAGE_SIZE, VirtAddr};
use std::vec::Vec;

const PAGE: u64 = PAGE_SIZE as u64;
const BASE: VirtAddr = VirtAddr(PAGE << 10);
/// Pages before the one that faults; its index has two levels: a root and the page's own node.
const BEFORE: u64 = 600;
const NODES: u64 = 2;
/// Failures in a row: far more than a fault may need, and not so many that a fault which goes on for ever is
/// not noticed soon.
const FAILURES: u64 = 20;

/// Maps shared memory of which no page was touched, plans `failures` in a row from the `nth` node of its
/// index on, and lets its last page fault. The fault holds a frame and a table already, and all tables of the
/// page are there, so only nodes are allocated. Returns the result.
fn fault_without_nodes(nth: u64, failures: u64) -> Result<(), FaultError> {
    let mut result = Ok(());
    with_space(|space| {
        let at = |page| VirtAddr(BASE.0 + page * PAGE);
        let private = MapRequest { place: Place::Fixed(at(BEFORE + 1)), ..MapRequest::anonymous(PAGE) };
        space.map(&private).unwrap();
        space.fault(Fault { addr: at(BEFORE + 1), access: Access::Write }).unwrap();
        let place = Place::Fixed(BASE);
        let shared =
            MapRequest { place, sharing: Sharing::Shared, ..MapRequest::anonymous((BEFORE + 1) * PAGE) };
        space.map(&shared).unwrap();
        let mut prepared = Prepared::new(space.vm);
        assert_eq!(prepared.wait_for_memory(), Ok(true));
        let fault = Fault { addr: at(BEFORE), access: Access::Write };
        space.vm.memory().plan_mishaps(nth, failures);
        result = space.faults().fault_locked(fault, &mut prepared, None);
        space.vm.memory().plan_mishap(0);
        drop(prepared);
        space.fault(fault).unwrap();
        space.unmap(BASE, (BEFORE + 2) * PAGE).unwrap();
    });
    result
}

#[test]
fn a_fault_ends_where_a_node_of_the_backing_cannot_be_allocated_though_it_waited() {
    for nth in 1..=NODES {
        assert_eq!(fault_without_nodes(nth, FAILURES), Err(FaultError::NoMemory), "node {nth}");
    }
    assert_eq!(fault_without_nodes(NODES + 1, FAILURES), Ok(()), "there are no more nodes");
}

#[test]
fn a_fault_gets_over_one_failure_for_each_node_of_the_backing() {
    assert!((1..=NODES).all(|nth| fault_without_nodes(nth, 1) == Ok(())));
}

/// Where a frame of the backing has as many references as can be counted, a fault ends; it does not wait for
/// one to go.
#[test]
fn a_fault_ends_where_a_frame_has_the_most_references() {
    with_space(|space| {
        let request = MapRequest { place: Place::Fixed(BASE), ..MapRequest::anonymous(PAGE) };
        space.map(&MapRequest { sharing: Sharing::Shared, ..request }).unwrap();
        let fault = Fault { addr: BASE, access: Access::Read };
        space.fault(fault).unwrap();
        let (frame, _) = space.inspect().resident_frame(BASE.vpn()).unwrap();
        space.advise(BASE, PAGE, Advice::DontNeed).unwrap();
        let memory = space.vm.memory();
        let mut references: Vec<_> = core::iter::from_fn(|| memory.try_get(frame)).collect();
        assert_eq!(space.fault(fault).map(drop), Err(FaultError::NoMemory));
        assert_eq!(memory.meta(frame).unwrap().mapcount(), 0);
        references.pop();
        space.fault(fault).unwrap();
        assert_eq!(memory.meta(frame).unwrap().mapcount(), 1);
        drop(references);
        space.unmap(BASE, PAGE).unwrap();
    });
}
