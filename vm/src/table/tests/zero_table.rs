//! The table of zeros, and what leaves *by table* say to software and to hardware.

use super::entries::memory;
use crate::frame::{Kind, NoHugeZero, Priority, Taken};
use crate::machine::testing::{TestFormat, TestMachine};
use crate::machine::{Entry, Format, Leaf, LeafKind};
use crate::sync::Rcu;
use crate::sync::atomic::Ordering::Relaxed;
use crate::table::format::{Aarch64, Ept, Sv48, X86_64, X86_64La57};
use crate::table::{LeafBits, PageTable};
use crate::units::{Level, Pfn, Rights};

/// Rights that a leaf of zeros may have.
const RIGHTS: [Rights; 4] = [
    Rights::empty(),
    Rights::READ.union(Rights::USER),
    Rights::READ.union(Rights::USER).union(Rights::EXECUTE),
    Rights::READ,
];

fn leaves() -> impl Iterator<Item = Leaf> {
    RIGHTS.into_iter().flat_map(|rights| {
        [false, true].map(|accessed| Leaf {
            accessed,
            kind: LeafKind::BY_TABLE,
            ..Leaf::new(Pfn(0x1234), rights)
        })
    })
}

fn leaves_by_table_survive<F: Format>() {
    const { assert!(F::SHOWS_BY_TABLE) };
    for leaf in leaves() {
        let word = F::encode(Entry::Leaf(leaf), Level::Pmd);
        assert_eq!(F::decode(word, Level::Pmd), Entry::Leaf(leaf), "{} {word:#x}", F::NAME);
        assert_eq!(F::write_protected(word, Level::Pmd), word, "{} {leaf:?}", F::NAME);
        let Entry::Leaf(used) = F::decode(F::used(word, true), Level::Pmd) else { panic!("{word:#x}") };
        assert_eq!((used.by_table(), used.accessed, used.rights), (true, true, leaf.rights), "{}", F::NAME);
        let whole = F::encode(Entry::Leaf(Leaf { kind: LeafKind::NOT_OWNED, ..leaf }), Level::Pmd);
        assert_ne!(word, whole, "{} {leaf:?}", F::NAME);
    }
}

#[test]
fn leaves_by_table_survive_encoding_where_the_format_has_them() {
    leaves_by_table_survive::<X86_64>();
    leaves_by_table_survive::<X86_64La57>();
    leaves_by_table_survive::<Aarch64>();
    leaves_by_table_survive::<TestFormat>();
    const { assert!(!Sv48::SHOWS_BY_TABLE && !Ept::SHOWS_BY_TABLE) };
}

/// SDM volume 3, 4.5: a PDE with P set and PS clear references a page table; R/W, U/S and XD hold for the
/// region, A is set by the processor, bits 6 and 8 to 11 are ignored.
#[test]
fn the_processor_reads_a_pointer_to_the_table_on_x86() {
    const IGNORED: u64 = 1 << 6 | 0xf << 8;
    for leaf in leaves().filter(|leaf| leaf.rights.contains(Rights::READ)) {
        let word = X86_64::encode(Entry::Leaf(leaf), Level::Pmd);
        let bit = |on: bool, bit: u32| u64::from(on) << bit;
        let user = bit(leaf.rights.contains(Rights::USER), 2);
        let no_execute = bit(!leaf.rights.contains(Rights::EXECUTE), 63);
        let due = 0x1234 << 12 | 1 | user | bit(leaf.accessed, 5) | no_execute;
        assert_eq!(word & !IGNORED, due, "{leaf:?}");
    }
}

/// Arm ARM, VMSAv8-64 stage 1 table descriptors: bits 1:0 are 11; APTable is 62:61, UXNTable 60, PXNTable
/// 59; bits 58:52 and 11:2 are ignored.
#[test]
fn the_processor_reads_a_pointer_to_the_table_on_aarch64() {
    const IGNORED: u64 = 0x7f << 52 | 0x3ff << 2;
    for leaf in leaves().filter(|leaf| leaf.rights.contains(Rights::READ)) {
        let word = Aarch64::encode(Entry::Leaf(leaf), Level::Pmd);
        let (user, execute) = (leaf.rights.contains(Rights::USER), leaf.rights.contains(Rights::EXECUTE));
        let bit = |on: bool, bit: u32| u64::from(on) << bit;
        let denied = bit(true, 62) | bit(!user, 61) | bit(!user || !execute, 60) | bit(user || !execute, 59);
        assert_eq!(word & !IGNORED, 0x1234 << 12 | 3 | denied, "{leaf:?}");
    }
}

#[test]
fn no_leaf_and_no_pointer_to_a_table_is_taken_for_one_by_table() {
    fn checked<F: Format>() {
        for level in [Level::Pmd, Level::Pud, Level::P4d] {
            let word = F::encode(Entry::Table(Pfn(0x99)), level);
            assert_eq!(F::decode(word, level), Entry::Table(Pfn(0x99)), "{} {level:?}", F::NAME);
        }
        for level in [Level::Pte, Level::Pmd, Level::Pud] {
            for rights in RIGHTS {
                let word = F::encode(Entry::Leaf(Leaf::new(Pfn(0x4_0000), rights)), level);
                let Entry::Leaf(leaf) = F::decode(word, level) else { panic!("{word:#x}") };
                assert!(!leaf.by_table() && !leaf.owned(), "{} {level:?} {leaf:?}", F::NAME);
            }
        }
    }
    checked::<X86_64>();
    checked::<Aarch64>();
    checked::<TestFormat>();
}

#[test]
fn it_has_512_entries_of_zeros_to_read_and_is_there_once() {
    let machine = TestMachine::new(100);
    let memory = memory(&machine);
    let rcu = Rcu::carve(&mut memory.boot_allocator(), 1).unwrap();
    let tree = || PageTable::new(&memory, memory.alloc_table(Priority::Normal).unwrap(), &rcu);
    let (first, second) = (tree(), tree());
    let before = memory.check().unwrap().allocated;
    assert_eq!(first.take_zero_table(None), Err(NoHugeZero), "nothing is allocated where that is not said");
    let (pfn, taken) = first.take_zero_table(Some(Priority::Normal)).unwrap();
    assert_eq!((taken, second.take_zero_table(None)), (Taken::Allocated, Ok((pfn, Taken::Shared))));
    assert_eq!(memory.check().unwrap().allocated, before + 1);
    let state = memory.meta(pfn).unwrap().state();
    assert!(state.kind() == Kind::Table && !state.is_attached(), "{state:?}: nobody could lock it");
    // SAFETY: it is a table of this memory, kept for good.
    let words = unsafe { memory.words(pfn) };
    let due = LeafBits::new(Rights::READ | Rights::USER | Rights::EXECUTE).used(false);
    let due = due.leaf(memory.zero_frame(), LeafKind::NOT_OWNED);
    for slot in 0..Level::ENTRIES {
        let word = words.at(slot).load(Relaxed);
        assert_eq!(TestFormat::decode(word, Level::Pte), Entry::Leaf(due), "slot {slot}");
        assert_eq!(TestFormat::used(word, false), word, "the hardware has nothing to set");
    }
}

#[test]
fn without_a_frame_there_is_none_and_the_next_attempt_gets_one() {
    let machine = TestMachine::new(100);
    let memory = memory(&machine);
    let rcu = Rcu::carve(&mut memory.boot_allocator(), 1).unwrap();
    let tree = PageTable::new(&memory, memory.alloc_table(Priority::Normal).unwrap(), &rcu);
    let before = memory.check().unwrap().allocated;
    memory.plan_mishap(1);
    assert_eq!(tree.take_zero_table(Some(Priority::Normal)), Err(NoHugeZero));
    memory.plan_mishap(0);
    assert_eq!((memory.check().unwrap().allocated, memory.zero_pages().table_frames()), (before, 0));
    assert!(tree.take_zero_table(Some(Priority::Normal)).is_ok());
}
