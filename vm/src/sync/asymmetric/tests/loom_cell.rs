//! The owner of a cell against a revoker.

use crate::machine::testing::{TestCpu, TestMachine};
use crate::sync::PerCpu;
use crate::sync::asymmetric::{AsymmetricCell, revoke_all};
use crate::sync::atomic::Ordering::*;
use crate::sync::testing::{Heap, run_model};
use loom::cell::UnsafeCell;
use loom::sync::Arc;

type Cells = PerCpu<'static, AsymmetricCell<UnsafeCell<u32>, TestCpu>, TestCpu>;

fn add(cell: &mut UnsafeCell<u32>) {
    // SAFETY: the protocol under test says that no other thread has the cell; loom checks it.
    cell.with_mut(|value| unsafe { *value += 1 });
}

fn value(cell: &UnsafeCell<u32>) -> u32 {
    // SAFETY: as in `add`.
    cell.with(|value| unsafe { *value })
}

#[test]
fn loom_asymmetric_cell_owner_and_revoker_never_meet() {
    run_model(3, || {
        let machine = Arc::new(TestMachine::with_cpus(1, 2));
        let new = |_| AsymmetricCell::new(UnsafeCell::new(0));
        let cells: Cells = PerCpu::carve(&mut Heap, 2, new).unwrap();
        // A word's shadow is made by the thread that touches it first, and must be there before the threads
        // are.
        cells.iter().for_each(|(_, cell)| assert!(cell.count.get() == cell.revoked.load(Relaxed)));
        let cells = Arc::new(cells);
        let other = cells.clone();
        let owner = crate::sync::testing::thread::spawn(move || {
            TestCpu::become_cpu(1);
            let enter = || AsymmetricCell::with(&other.get_cpu(), |cell| cell, add).map_or(0, |()| 1);
            enter() + enter()
        });
        let mut seen = 0;
        let see_and_add = |_: &_, cell: &mut _| {
            seen += value(cell);
            add(cell);
        };
        revoke_all(&cells, &*machine, |cell| cell, see_and_add, || ());
        let entered = owner.join().unwrap();
        let mut total = 0;
        revoke_all(&cells, &*machine, |cell| cell, |_, cell| total += value(cell), || ());
        assert_eq!(total, entered + 2);
        assert!(seen <= entered);
    });
}
