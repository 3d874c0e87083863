//! Two CPUs of which each wants the table of zeros, and neither finds one.

use super::loom_entries::{Machine, Tree, with_tree};
use crate::frame::{Priority, Taken};
use crate::machine::testing::TestCpu;
use crate::machine::{Entry, Format, LeafKind};
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::refill_zeros;
use crate::sync::testing::{run_model, thread};
use crate::table::{LeafBits, PageTable};
use crate::units::{Level, Pfn, Rights};
use std::boxed::Box;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed as HostRelaxed};

/// Takes the table, and looks into it as the hardware does that has found it in a slot. Returns it, and
/// whether it was allocated for this.
fn take_and_look(tree: &'static Tree) -> (Pfn, bool) {
    let (pfn, taken) = tree.take_zero_table(Some(Priority::NoWait)).expect("there is memory for two");
    let bits = LeafBits::new(Rights::READ | Rights::EXECUTE | Rights::USER).used(false);
    let due = <Machine as crate::machine::Machine>::Format::encode(
        Entry::Leaf(bits.leaf(tree.memory.zero_frame(), LeafKind::NOT_OWNED)),
        Level::Pte,
    );
    for slot in [0, 1, Level::ENTRIES - 2, Level::ENTRIES - 1] {
        let word = tree.memory.word(pfn, slot).load(Relaxed);
        assert_eq!(word, due, "slot {slot} of a table that others may show already");
    }
    (pfn, taken == Taken::Allocated)
}

#[test]
fn loom_two_cpus_that_both_want_the_table_of_zeros_show_one() {
    let allocated_here: &'static [AtomicUsize; 2] = Box::leak(Box::default());
    run_model(2, move || {
        with_tree(PageTable::new, |tree, memory, _| {
            let before = memory.check().unwrap().allocated;
            refill_zeros();
            let other = thread::spawn(move || {
                TestCpu::become_cpu(1);
                take_and_look(tree)
            });
            let (here, there) = (take_and_look(tree), other.join().unwrap());
            assert_eq!(here.0, there.0, "two tables of zeros");
            assert!(here.1 != there.1, "one of them has allocated it");
            allocated_here[usize::from(here.1)].fetch_add(1, HostRelaxed);
            assert_eq!(memory.check().unwrap().allocated, before + 1, "the loser's table is lost");
        });
    });
    assert!(allocated_here.iter().all(|nr| nr.load(HostRelaxed) > 0), "{allocated_here:?}");
}
