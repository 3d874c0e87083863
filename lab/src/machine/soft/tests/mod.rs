//! The machine, driven by hand-built tables of a tiny format.

mod broken;
mod claim;
mod conformance;
mod moved;
mod record_window;

use super::*;
use crate::machine::host::{Host, SwitchNotifier, with_switch_notifier, without_cpu};
use interleaf::machine::{Cpu, Entry, Format, Leaf, LeafKind, Machine, Marker, RootTable};
use interleaf::sync::atomic::{AtomicU64, Ordering};
use interleaf::units::*;
use std::cell::Cell;

/// Four levels, one bit for each thing an entry says.
#[derive(Debug)]
pub enum Tiny {}

const PRESENT: u64 = 1;
const ACCESSED: u64 = 1 << 5;
const DIRTY: u64 = 1 << 6;
const LEAF: u64 = 1 << 7;
const MARKER: u64 = 1 << 9;
const NOT_OWNED: u64 = 1 << 10;
const FRAME: u64 = 0x000f_ffff_ffff_f000;

impl Format for Tiny {
    const NAME: &'static str = "tiny";
    const ROOT: Level = Level::P4d;
    const ADDRESS_BITS: u32 = 48;
    const REMEMBERS_REFUSALS: bool = false;

    fn encode(entry: Entry, _level: Level) -> u64 {
        match entry {
            Entry::Absent => 0,
            Entry::Marker(_) => MARKER,
            Entry::Table(pfn) => PRESENT | pfn.addr().0,
            Entry::Leaf(leaf) => {
                let used = (u64::from(leaf.accessed) * ACCESSED) | (u64::from(leaf.dirty) * DIRTY);
                let rights = u64::from(leaf.rights.bits()) << 54;
                PRESENT | LEAF | used | leaf.pfn.addr().0 | rights | (u64::from(!leaf.owned()) * NOT_OWNED)
            }
        }
    }

    fn decode(word: u64, _level: Level) -> Entry {
        let pfn = Pfn((word & FRAME) >> 12);
        match (word & PRESENT, word & LEAF) {
            (0, _) if word & MARKER == 0 => Entry::Absent,
            (0, _) => Entry::Marker(Marker::UNKNOWN),
            (_, 0) => Entry::Table(pfn),
            _ => {
                let mut leaf = Leaf::new(pfn, Rights::from_bits_truncate((word >> 54) as u8));
                (leaf.accessed, leaf.dirty) = (word & ACCESSED != 0, word & DIRTY != 0);
                leaf.kind = LeafKind::from_bits(u64::from(word & NOT_OWNED != 0));
                Entry::Leaf(leaf)
            }
        }
    }

    fn used(word: u64, store: bool) -> u64 {
        word | ACCESSED | if store { DIRTY } else { 0 }
    }
}

type TestMachine = SoftMachine<Host, Tiny>;

const ROOT: Pfn = Pfn(256);

fn root() -> RootTable {
    // SAFETY: the tests build tables there, and nothing else runs on the machine.
    unsafe { RootTable::new(ROOT) }
}
const PAGE: Vpn = Vpn(0x1_2345);
const RW: Rights = Rights::READ.union(Rights::WRITE).union(Rights::USER);
const RO: Rights = Rights::READ.union(Rights::USER);

fn machine(nr_cpus: u32) -> TestMachine {
    let machine = SoftMachine::new(&MachineConfig::small(nr_cpus, 64)).unwrap();
    machine.bare_memory().fill(PfnRange::new(ROOT, ROOT.add(4)), 0);
    for (n, level) in [Level::P4d, Level::Pud, Level::Pmd].into_iter().enumerate() {
        let next = Pfn(ROOT.0 + n as u64 + 1);
        store(&machine, Pfn(ROOT.0 + n as u64), level, Entry::Table(next));
    }
    machine
}

fn word(machine: &TestMachine, table: Pfn, level: Level) -> &AtomicU64<Host> {
    // SAFETY: tests reach entries through atomics only.
    unsafe { AtomicU64::from_cell(&machine.table_page(table).words[level.index(PAGE)]) }
}

fn store(machine: &TestMachine, table: Pfn, level: Level, entry: Entry) {
    word(machine, table, level).store(Tiny::encode(entry, level), Ordering::Release);
}

fn map(machine: &TestMachine, pfn: u64, rights: Rights) {
    let leaf = Leaf::new(Pfn(pfn), rights);
    store(machine, Pfn(ROOT.0 + 3), Level::Pte, Entry::Leaf(leaf));
}

fn entry(machine: &TestMachine) -> Entry {
    Tiny::decode(word(machine, Pfn(ROOT.0 + 3), Level::Pte).load(Ordering::Acquire), Level::Pte)
}

#[test]
fn an_access_walks_once_marks_the_entry_and_then_hits() {
    let machine = machine(1);
    let _here = machine.enter(CpuId(0));
    machine.load_root(Some(root()));
    map(&machine, 300, RW);
    let addr = PAGE.addr();
    assert_eq!(machine.read_u64(addr, &refuse), Ok(0xA5A5_A5A5_A5A5_A5A5));
    assert!(matches!(entry(&machine), Entry::Leaf(Leaf { accessed: true, dirty: false, .. })));
    machine.write_u64(addr, 7, &refuse).unwrap();
    assert!(matches!(entry(&machine), Entry::Leaf(Leaf { dirty: true, .. })));
    store(&machine, Pfn(ROOT.0 + 3), Level::Pte, Entry::Absent);
    assert_eq!(machine.read_u64(addr, &refuse), Ok(7), "a TLB entry outlives its table entry");
    machine.flush_range(VpnRange::new(PAGE, PAGE.add(1)));
    assert_eq!(machine.read_u64(addr, &refuse), Err(Signal::Segv));
}

#[test]
fn the_tlb_keeps_using_a_table_that_was_cut_out_until_the_flush() {
    let machine = machine(1);
    let _here = machine.enter(CpuId(0));
    machine.load_root(Some(root()));
    map(&machine, 300, RW);
    machine.touch(PAGE.addr(), Access::Read, &refuse).unwrap();
    store(&machine, Pfn(ROOT.0 + 2), Level::Pmd, Entry::Absent);
    // The neighbour is in the same table, which the upper-level cache still names.
    let neighbour = PAGE.add(1).addr();
    let leaf = Leaf::new(Pfn(301), RO);
    // SAFETY: as in `word`.
    let slot = unsafe {
        AtomicU64::<Host>::from_cell(
            &machine.table_page(Pfn(ROOT.0 + 3)).words[Level::Pte.index(PAGE.add(1))],
        )
    };
    slot.store(Tiny::encode(Entry::Leaf(leaf), Level::Pte), Ordering::Release);
    assert!(machine.touch(neighbour, Access::Read, &refuse).is_ok());
    machine.flush_range(VpnRange::new(PAGE, PAGE.add(2)));
    assert_eq!(machine.touch(neighbour, Access::Read, &refuse), Err(Signal::Segv));
}

#[test]
fn a_stale_entry_with_fewer_rights_is_walked_again_before_a_fault() {
    let machine = machine(1);
    let _here = machine.enter(CpuId(0));
    machine.load_root(Some(root()));
    map(&machine, 300, RO);
    machine.touch(PAGE.addr(), Access::Read, &refuse).unwrap();
    assert_eq!(machine.touch(PAGE.addr(), Access::Write, &refuse), Err(Signal::Segv));
    map(&machine, 300, RO);
    machine.touch(PAGE.addr(), Access::Read, &refuse).unwrap();
    map(&machine, 300, RW);
    assert!(machine.touch(PAGE.addr(), Access::Write, &refuse).is_ok(), "no fault for rights that grew");
    assert_eq!(machine.touch(PAGE.addr(), Access::Execute, &refuse), Err(Signal::Segv));
    assert_eq!(machine.violations(), []);
}

#[test]
fn a_fault_handler_is_asked_until_the_access_works() {
    let machine = machine(1);
    let _here = machine.enter(CpuId(0));
    machine.load_root(Some(root()));
    let asked = Cell::new(0);
    let handler = |addr: VirtAddr, access: Access| {
        assert_eq!((addr.vpn(), access), (PAGE, Access::Write));
        asked.set(asked.get() + 1);
        if asked.get() == 2 {
            map(&machine, 310, RW);
        }
        Ok(())
    };
    machine.write_u64(PAGE.addr(), 1, &handler).unwrap();
    assert_eq!(asked.get(), 2);
    assert_eq!(machine.read_u64(VirtAddr(1 << 47), &|_, _| panic!("not for a handler")), Err(Signal::Segv));
}

#[test]
fn bytes_cross_pages_and_a_kernel_page_is_not_for_user_code() {
    let machine = machine(1);
    let _here = machine.enter(CpuId(0));
    machine.load_root(Some(root()));
    map(&machine, 300, Rights::READ);
    assert_eq!(machine.touch(PAGE.addr(), Access::Read, &refuse), Err(Signal::Segv));
    map(&machine, 300, RW);
    let table = machine.table_page(Pfn(ROOT.0 + 3));
    let leaf = Leaf::new(Pfn(305), RW);
    // SAFETY: as in `word`.
    let slot = unsafe { AtomicU64::<Host>::from_cell(&table.words[Level::Pte.index(PAGE.add(1))]) };
    slot.store(Tiny::encode(Entry::Leaf(leaf), Level::Pte), Ordering::Release);
    let at = VirtAddr(PAGE.addr().0 + 4090);
    machine.write_bytes(at, b"across a border", &refuse).unwrap();
    let mut back = [0; 15];
    machine.read_bytes(at, &mut back, &refuse).unwrap();
    assert_eq!(&back, b"across a border");
    let mut raw = [0; 9];
    machine.read(Pfn(305), 0, &mut raw);
    assert_eq!(&raw, b" a border");
}

#[test]
fn a_frame_that_changes_without_a_flush_is_noticed() {
    let machine = machine(1);
    let _here = machine.enter(CpuId(0));
    machine.load_root(Some(root()));
    map(&machine, 300, RO);
    machine.touch(PAGE.addr(), Access::Read, &refuse).unwrap();
    map(&machine, 301, RW);
    machine.touch(PAGE.addr(), Access::Write, &refuse).unwrap();
    assert!(matches!(machine.violations()[..], [Violation::FrameChanged { .. }]));
    let pages = Cell::new(0);
    machine.inspect(CpuId(0), |page| pages.set(pages.get() + page.pfn.0), |_, _| ()).unwrap();
    assert_eq!(pages.get(), 301);
}

#[test]
fn a_running_cpu_is_not_inspected_by_others() {
    let machine = machine(2);
    let _here = machine.enter(CpuId(0));
    std::thread::scope(|s| {
        s.spawn(|| {
            assert_eq!(machine.inspect(CpuId(0), |_| (), |_, _| ()), Err(Running(CpuId(0))));
            assert_eq!(machine.inspect(CpuId(1), |_| (), |_, _| ()), Ok(()));
        });
    });
}

#[test]
fn tasks_take_turns_at_one_cpu_between_instructions() {
    let machine = machine(1);
    map(&machine, 300, RW);
    std::thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                let _here = machine.enter(CpuId(0));
                machine.load_root(Some(root()));
                for _ in 0..20_000 {
                    let old = machine.read_u64(PAGE.addr(), &refuse).unwrap();
                    machine.write_u64(PAGE.addr(), old.wrapping_add(1), &refuse).unwrap();
                }
            });
        }
    });
}

#[test]
fn a_sleeper_lets_another_task_have_its_cpu_and_switches_its_space() {
    struct Log(std::sync::Mutex<Vec<&'static str>>);
    impl SwitchNotifier for Log {
        fn sched_out(&self) {
            self.0.lock().unwrap().push("leaves");
        }
        fn sched_in(&self) {
            self.0.lock().unwrap().push("enters");
        }
    }
    let machine = machine(1);
    let word = std::sync::atomic::AtomicU32::new(0);
    let log = Log(std::sync::Mutex::new(Vec::new()));
    let here = machine.enter(CpuId(0));
    with_switch_notifier(&log, || {
        std::thread::scope(|s| {
            s.spawn(|| {
                let _here = machine.enter(CpuId(0));
                word.store(1, Ordering::SeqCst);
                Host::wake(&word, 1);
            });
            while word.load(Ordering::SeqCst) == 0 {
                Host::sleep(&word, 0);
            }
        });
        assert_eq!(without_cpu(|| 5), 5);
    });
    drop(here);
    let log = log.0.lock().unwrap();
    assert!(log.len() >= 4 && log.chunks(2).all(|pair| pair == ["leaves", "enters"]), "{log:?}");
}
