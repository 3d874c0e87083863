//! The index: items that lie about their range, edits of another index, guards of another RCU.

use crate::world::{Heap, Lab, must_work, with_vm};
use crate::{call, called, odd};
use interleaf::frame::{IndexPools, IndexReserve};
use interleaf::index::{MAX_NEW, RangeIndex, Ranged};
use interleaf::space::Vm;
use interleaf::sync::Rcu;
use interleaf::units::{Vpn, VpnRange};
use interleaf_lab::machine::host::Host;
use std::cell::Cell;

/// An item that says what it likes, and something else the next time.
#[derive(Debug)]
struct Liar {
    says: [VpnRange; 2],
    asked: Cell<usize>,
    guard: u64,
    panics: bool,
}

impl Liar {
    fn honest(start: u64, end: u64) -> Self {
        Self::lying(range(start, end), range(start, end))
    }

    fn lying(first: VpnRange, then: VpnRange) -> Self {
        Self { says: [first, then], asked: Cell::new(0), guard: 0, panics: false }
    }
}

impl Ranged for Liar {
    fn range(&self) -> VpnRange {
        let asked = self.asked.replace(self.asked.get() + 1);
        self.says[asked.min(1)]
    }
    fn guard_pages(&self) -> u64 {
        self.guard
    }
    fn before_unlink(&self) {
        assert!(!self.panics, "an item that panics");
    }
}

/// An item that keeps the defaults.
struct Plain;

impl Ranged for Plain {
    fn range(&self) -> VpnRange {
        range(0, 1)
    }
}

type Index<'m> = RangeIndex<'m, Liar, Host>;

fn range(start: u64, end: u64) -> VpnRange {
    VpnRange { start: Vpn(start), end: Vpn(end) }
}

/// Calls every function of the floor.
pub fn run() {
    called!(Ranged::guard_pages => Plain.guard_pages());
    called!(Ranged::before_unlink => Plain.before_unlink());
    with_vm(lookups);
    with_vm(edits);
    with_vm(lies);
    with_vm(|machine, vm| {
        foreigners(vm);
        must_work(machine, vm);
    });
}

fn new_rcu() -> Rcu<'static, Host> {
    Rcu::carve(&mut Heap, 2).expect("memory")
}

fn lookups(machine: &Lab, vm: &Vm<'_, Lab>) {
    let rcu = new_rcu();
    let (memory, foreign) = (vm.memory(), new_rcu());
    let pools = call!(IndexPools::new, memory, &rcu).flatten().expect("memory");
    let store = call!(IndexPools::allocator, &pools, memory, &rcu).expect("an allocator");
    let index: Index<'_> = call!(RangeIndex::new, &store).expect("an index");
    for round in 0..2 {
        let (own, other) = (rcu.read(), foreign.read());
        for section in [&own, &other] {
            for page in odd::vpns() {
                called!(RangeIndex::find => index.find(section, page).is_some());
                called!(RangeIndex::find_cached => index.find_cached(section, page).is_some());
                called!(RangeIndex::at_or_after => index.at_or_after(section, page).is_some());
                called!(RangeIndex::before => index.before(section, page).is_some());
            }
            for window in odd::vpn_ranges().step_by(7) {
                called!(RangeIndex::iter => index.iter(section, window).count());
                for (len, align) in [(0, 0), (1, 1), (u64::MAX, 1), (1, u64::MAX), (7, 3), (1 << 63, 1 << 63)]
                {
                    let low = call!(RangeIndex::lowest_gap, &index, section, window, len, align).flatten();
                    let high = call!(RangeIndex::highest_gap, &index, section, window, len, align).flatten();
                    for found in low.into_iter().chain(high) {
                        assert!(window.start <= found && found.0.checked_add(len) <= Some(window.end.0));
                    }
                }
            }
            let _ = call!(RangeIndex::check, &index, section);
        }
        drop((own, other));
        assert_eq!(call!(RangeIndex::len, &index), Some(round * 900));
        assert_eq!(call!(RangeIndex::is_empty, &index), Some(round == 0));
        if round == 0 {
            fill(&index, &store);
        }
    }
    remove_all(&index, &store);
    rcu.wait(machine, memory);
    call!(IndexPools::object_bytes, &pools);
    call!(IndexPools::frames, &pools);
    call!(IndexPools::shrink, &pools, memory);
}

type Store<'a, 'm> = interleaf::frame::IndexAllocator<'a, 'm, Liar, Lab>;

fn fill(index: &Index<'_>, store: &Store<'_, '_>) {
    for nth in 0..900 {
        let item = Liar::honest(nth * 5, nth * 5 + 3);
        index.prepare(VpnRange::default(), [item], store).expect("memory").publish();
    }
}

fn remove_all(index: &Index<'_>, store: &Store<'_, '_>) {
    index.prepare(range(0, u64::MAX), [], store).expect("memory").publish();
    assert!(index.is_empty());
}

fn edits(machine: &Lab, vm: &Vm<'_, Lab>) {
    let rcu = new_rcu();
    let memory = vm.memory();
    let pools = IndexPools::new(memory, &rcu).expect("memory");
    let store = pools.allocator(memory, &rcu);
    let index = Index::new(&store);
    fill(&index, &store);
    for old in odd::vpn_ranges().step_by(11) {
        for new in odd::vpn_ranges().step_by(13) {
            // Prepared and dropped: nothing changes.
            called!(RangeIndex::prepare => drop(index.prepare(old, [Liar::lying(new, new)], &store)));
        }
    }
    assert_eq!(index.check(&rcu.read()).map(|stats| stats.items), Ok(900));
    let many = || (0..MAX_NEW as u64 + 2).map(|nth| Liar::honest(nth, nth + 1));
    assert!(called!(RangeIndex::prepare => index.prepare(range(0, 9), many(), &store).is_ok()).is_none());
    let first = index.prepare(range(0, 3), [], &store).expect("memory");
    let second = called!(RangeIndex::prepare => index.prepare(range(5, 8), [], &store).is_ok());
    assert!(second.is_none(), "two edits at a time");
    drop(first);
    let panics = || -> Option<Liar> { panic!("an iterator that panics") };
    called!(RangeIndex::prepare => {
        drop(index.prepare(range(0, 3), std::iter::once_with(panics).flatten(), &store))
    });
    panicking_visits(&index, &store);
    let section = rcu.read();
    let kept = index.find(&section, Vpn(20)).expect("it is there");
    called!(Replacement::publish => index.prepare(range(20, 23), [], &store).expect("memory").publish());
    assert_eq!(kept.guard, 0, "a reader keeps what it found");
    drop(section);
    std::mem::forget(index.prepare(range(30, 33), [], &store).expect("memory"));
    let refused = called!(RangeIndex::prepare => index.prepare(range(35, 38), [], &store).is_ok());
    assert!(refused.is_none(), "an edit that is forgotten lasts for ever");
    rcu.wait(machine, memory);
}

/// Visits that panic before anything was unlinked: the items stay.
fn panicking_visits(index: &Index<'_>, store: &Store<'_, '_>) {
    let before = index.len();
    for left in [0, 1, 3] {
        let edit = index.prepare(range(0, 40), [], store).expect("memory");
        let mut left = left;
        called!(Replacement::publish_and => edit.publish_and(|_| {
            assert!(left > 0, "a visit that panics");
            left -= 1;
        }));
        assert_eq!(index.len(), before);
    }
    let rude = Liar { panics: true, ..Liar::honest(4505, 4506) };
    index.prepare(VpnRange::default(), [rude], store).expect("memory").publish();
    let edit = index.prepare(range(4500, 4510), [], store).expect("memory");
    called!(Replacement::publish => edit.publish());
    assert_eq!(index.len(), before + 1);
}

/// Items whose range and guard are something else whenever they are asked.
fn lies(machine: &Lab, vm: &Vm<'_, Lab>) {
    let rcu = new_rcu();
    let memory = vm.memory();
    let pools = IndexPools::<Liar, Lab>::new(memory, &rcu).expect("memory");
    let store = pools.allocator(memory, &rcu);
    let index = Index::new(&store);
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut below = |n: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % n
    };
    for _ in 0..4000 {
        let (old, says) = (below(900), below(900));
        let then = VpnRange { start: Vpn(below(u64::MAX)), end: Vpn(below(900)) };
        let guard = if below(9) == 0 { u64::MAX } else { below(5) };
        let item = Liar { guard, ..Liar::lying(range(says, says + below(6)), then) };
        let old = range(old, old + below(40));
        called!(Replacement::publish => index.prepare(old, Some(item), &store).expect("memory").publish());
        let section = rcu.read();
        let found = index.find(&section, Vpn(below(900)));
        assert!(found.is_none_or(|item| !item.panics));
        called!(RangeIndex::find_cached => index.find_cached(&section, Vpn(says)).is_some());
        let _ = called!(RangeIndex::check => index.check(&section).is_ok());
    }
    remove_all(&index, &store);
    rcu.wait(machine, memory);
    pools.shrink(memory);
}

/// Memory, pools and RCUs of others.
fn foreigners(vm: &Vm<'_, Lab>) {
    let (rcu, other) = (new_rcu(), new_rcu());
    let memory = vm.memory();
    let pools = IndexPools::<Liar, Lab>::new(memory, &rcu).expect("memory");
    let second = IndexPools::<Liar, Lab>::new(memory, &rcu).expect("memory");
    assert!(called!(IndexPools::allocator => pools.allocator(memory, &other)).is_none());
    let (store, foreign) = (pools.allocator(memory, &rcu), second.allocator(memory, &rcu));
    let index = Index::new(&store);
    fill(&index, &store);
    let refused = called!(RangeIndex::prepare => index.prepare(range(0, 3), [], &foreign).is_ok());
    assert!(refused.is_none(), "memory of another index");
    let reserve = call!(IndexReserve::new, pools.allocator(memory, &rcu)).flatten().expect("memory");
    memory.plan_mishaps_from(0);
    for nth in 0..40 {
        called!(RangeIndex::prepare => {
            drop(index.prepare(range(0, 3), [Liar::honest(0, 1 + nth % 3)], &reserve))
        });
        call!(IndexReserve::refill, &reserve);
    }
    memory.plan_mishap(u64::MAX);
    memory.plan_mishap(0);
    while memory.is_mishap_planned() {
        drop(memory.alloc_frame(interleaf::frame::AllocRequest::DIRTY));
    }
    drop(reserve);
    assert_eq!(index.check(&rcu.read()).map(|stats| stats.items), Ok(900));
    called!(RangeIndex::prepare => drop(index.prepare(range(0, 3), [], &store)));
}
