//! Two CPUs at once on memory of the reserved pool, on the seeded machine.
//!
//! Both run a space that maps three pages of the pool, which has one more, and two pages of shared memory of
//! the pool, which has those too; each CPU stores to a part of its own in the first page. Each does an
//! operation, then reads its part back. What holds whatever the order: a page that is set aside is there for
//! its fault, no CPU loses a store that nobody discards, or one to shared memory, no TLB holds what is gone,
//! and the pool's counts are what entries and objects say.

use super::{HUGE, HUGE_BYTES};
use crate::check::calls::{Call, CallResult, MapFlags, PAGE, Prot, advice};
use crate::check::drive::Driver;
use crate::check::library::{boot_map, layout_of};
use crate::check::recount::QuiescentSystem;
use crate::check::setting::Setting;
use crate::machine::baton::{Baton, Options, Program, Report, Schedule, explore};
use crate::machine::soft::{MachineConfig, SoftMachine};
use interleaf::frame::PoolCounts;
use interleaf::machine::Format;
use interleaf::space::{AddressSpace, MapRequest, MemlockLimit, Path, Place, Sharing, Vm};
use interleaf::units::{Access, CpuId, PageSize, VirtAddr};
use std::ops::Range;

/// What one CPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolOperation {
    /// Store to the second page.
    Store,
    /// munmap of the second page, and a mapping of it anew.
    MapAgain,
    /// munmap of the third page.
    Unmap,
    /// mprotect of the first two, to read-only and back.
    Protect,
    /// MADV_DONTNEED of the second page, and a store to it.
    Discard,
    /// Base pages over the third page.
    MapOver,
    /// A pin of a part of the second page, without a lock or with one, and a store of a device.
    Pin,
    /// A fork, whose child reads the own part if the pool has a page for it.
    Fork,
    /// Stores to both pages of shared memory.
    StoreShared,
    /// MADV_DONTNEED of shared memory, whose contents stay.
    DiscardShared,
    /// munmap of the second page of shared memory.
    UnmapShared,
    /// A pin of a part of shared memory, without a lock or with one.
    PinShared,
    /// A fork, whose child stores to shared memory, and unmaps it last or first.
    ForkShared,
}

impl PoolOperation {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Store,
        Self::MapAgain,
        Self::Unmap,
        Self::Protect,
        Self::Discard,
        Self::MapOver,
        Self::Pin,
        Self::Fork,
        Self::StoreShared,
        Self::DiscardShared,
        Self::UnmapShared,
        Self::PinShared,
        Self::ForkShared,
    ];
}

impl PoolOperation {
    /// Whether it is about shared memory.
    fn is_of_shared(self) -> bool {
        use PoolOperation::*;
        matches!(self, StoreShared | DiscardShared | UnmapShared | PinShared | ForkShared)
    }
}

/// All unordered pairs of operations on private memory, and of those on shared memory; and each of the latter
/// beside what also changes the pool's counts, or both kinds of memory.
pub fn all_pool() -> impl Iterator<Item = (PoolOperation, PoolOperation)> {
    let every = PoolOperation::ALL;
    let meets_all = |one| matches!(one, PoolOperation::MapAgain | PoolOperation::Fork);
    let pairs = (0..every.len()).flat_map(move |a| (a..every.len()).map(move |b| (every[a], every[b])));
    pairs.filter(move |&(a, b)| a.is_of_shared() == b.is_of_shared() || meets_all(a) || meets_all(b))
}

/// The arena, in the main window of the setting.
const BASE: u64 = (16 << 40) + 64 * HUGE_BYTES;
const PAGES: u64 = 3;
/// Huge pages of the pool, and frames: the pool, and what goes beside.
const POOL: u64 = PAGES + 1 + SHARED_PAGES;
/// Shared memory, behind a hole.
const SHARED: u64 = BASE + 8 * HUGE_BYTES;
const SHARED_PAGES: u64 = 2;
const FRAMES: u64 = (POOL + 4) * HUGE;
const BOTH: Prot = Prot::READ.union(Prot::WRITE);
const FIXED: MapFlags = MapFlags::FIXED.union(MapFlags::PRIVATE).union(MapFlags::ANONYMOUS);

type Machine<F> = SoftMachine<Baton, F>;

/// Plays a pair with each seed. Returns how many steps there were.
///
/// # Errors
/// The first seed that went wrong.
pub fn run_pool_pair<F: Format>(
    pair: (PoolOperation, PoolOperation),
    seeds: Range<u64>,
) -> Result<u64, Box<Report>> {
    let options = Options { limit_steps: 2_000_000, keep: 80 };
    let played = explore(seeds, options, move |schedule| scenario::<F>(schedule, pair));
    played.map(|summary| summary.steps)
}

fn scenario<F: Format>(schedule: &Schedule, pair: (PoolOperation, PoolOperation)) {
    let setting = Setting { memory_pages: 1 << 40, ..Setting::default() };
    let path = if schedule.seed().is_multiple_of(3) { Path::Locked } else { Path::Speculative };
    let machine = Machine::<F>::new(&MachineConfig::small(2, FRAMES)).expect("a machine");
    let entered = machine.enter(CpuId(0));
    let vm = Vm::new(&machine, boot_map(&machine)).expect("memory");
    assert_eq!(vm.resize_huge_pool(PageSize::Huge, POOL).free, POOL);
    let space = AddressSpace::new(&vm, layout_of(&setting), path).expect("memory for a space");
    drop(entered);
    let limit = MemlockLimit::new(u64::MAX);
    let driver = || Driver { machine: &machine, space: &space };
    let cpus = [0, 1].map(|cpu| Cpu { driver: driver(), cpu, limit: &limit });
    let mut active = Vec::new();
    for cpu in &cpus {
        let _entered = machine.enter(CpuId(cpu.cpu as u32));
        if cpu.cpu == 0 {
            cpu.map(0, PAGES);
            cpu.map_shared();
        }
        active.push(space.activate(None));
        cpu.store_own(1);
        // The second is there too in every other run.
        if cpu.cpu == 1 && schedule.seed().is_multiple_of(2) {
            cpu.call(Call::Write { addr: BASE + HUGE_BYTES + 9 * PAGE, value: 9 });
        }
    }
    let program = |(cpu, operation): (usize, PoolOperation)| -> Program<'_> {
        let cpu = &cpus[cpu];
        Box::new(move || cpu.run(operation))
    };
    schedule.run(&machine, [pair.0, pair.1].into_iter().enumerate().map(program).collect());
    let entered = machine.enter(CpuId(0));
    QuiescentSystem { machine: &machine, vm: &vm, spaces: &[&space], path }.must_hold();
    assert_eq!(machine.violations(), [], "a TLB saw the impossible");
    let second = active.pop();
    drop(active);
    drop(entered);
    {
        let _entered = machine.enter(CpuId(1));
        drop(second);
        vm.trim();
    }
    let _entered = machine.enter(CpuId(0));
    drop(space);
    vm.trim();
    vm.memory().check().expect("frames add up at the end");
    let all = PoolCounts { total: POOL, free: POOL, reserved: 0, surplus: 0 };
    assert_eq!(vm.memory().huge_pool(PageSize::Huge), all);
}

/// What one CPU works with.
struct Cpu<'a, 'v, F: Format> {
    driver: Driver<'a, 'v, Baton, F>,
    cpu: u64,
    limit: &'a MemlockLimit<Baton>,
}

impl<'v, F: Format> Cpu<'_, 'v, F> {
    /// An address in the first page, which nobody unmaps or discards.
    fn own(&self) -> u64 {
        BASE + (5 + 100 * self.cpu) * PAGE
    }

    fn call(&self, call: Call) -> CallResult {
        self.driver.call(&call)
    }

    fn store_own(&self, value: u8) {
        self.call(Call::Write { addr: self.own(), value });
    }

    /// Maps pages of the pool, which has them.
    fn map(&self, page: u64, pages: u64) {
        let place = Place::Fixed(VirtAddr(BASE + page * HUGE_BYTES));
        let request = MapRequest { place, ..MapRequest::anonymous(pages * HUGE_BYTES) };
        let mapped = self.driver.space.map_huge_pool(&request, PageSize::Huge);
        assert!(mapped.is_ok(), "the pool has enough: {mapped:?}");
    }

    fn map_shared(&self) {
        let (place, sharing) = (Place::Fixed(VirtAddr(SHARED)), Sharing::Shared);
        let request = MapRequest { place, sharing, ..MapRequest::anonymous(SHARED_PAGES * HUGE_BYTES) };
        let mapped = self.driver.space.map_huge_pool(&request, PageSize::Huge);
        assert!(mapped.is_ok(), "the pool has enough: {mapped:?}");
    }

    /// An address in the first page of shared memory, which nobody unmaps.
    fn own_shared(&self) -> u64 {
        SHARED + (3 + 50 * self.cpu) * PAGE
    }

    /// Stores to the own part of shared memory, where nothing is ever lost.
    fn store_shared(&self, value: u8) {
        let stored = self.call(Call::Write { addr: self.own_shared(), value });
        assert_eq!(stored, CallResult::Written, "a page of shared memory was set aside");
    }

    fn must_read_shared(&self, space: &AddressSpace<'v, Machine<F>>, value: u8) {
        let mut byte = [0];
        assert_eq!(space.copy_from(VirtAddr(self.own_shared()), &mut byte), Ok(1));
        assert_eq!(byte, [value], "a store to shared memory is lost");
    }

    fn run(&self, operation: PoolOperation) {
        let kept = 20 + self.cpu as u8;
        self.store_own(kept);
        // Refused while the other CPU takes the right to write.
        let is_kept = self.call(Call::Read { addr: self.own() }) == CallResult::Byte(kept);
        self.carry_out(operation, kept, is_kept);
        if is_kept {
            let read = self.call(Call::Read { addr: self.own() });
            assert_eq!(read, CallResult::Byte(kept), "a store to the first page is lost");
        }
    }

    fn carry_out(&self, operation: PoolOperation, kept: u8, is_kept: bool) {
        let (second, third) = (BASE + HUGE_BYTES, BASE + 2 * HUGE_BYTES);
        match operation {
            PoolOperation::Store => {
                self.call(Call::Write { addr: second + (7 + self.cpu) * PAGE, value: 3 });
            }
            PoolOperation::MapAgain => {
                self.call(Call::Munmap { addr: second, len: HUGE_BYTES });
                self.map(1, 1);
            }
            PoolOperation::Unmap => {
                self.call(Call::Munmap { addr: third, len: HUGE_BYTES });
                let seen = self.call(Call::Read { addr: third });
                assert!(!matches!(seen, CallResult::Byte(1..)), "a page is reached where nothing is mapped");
            }
            PoolOperation::Protect => {
                for prot in [Prot::READ, BOTH] {
                    self.call(Call::Mprotect { addr: BASE, len: 2 * HUGE_BYTES, prot });
                }
            }
            PoolOperation::Discard => {
                self.call(Call::Madvise { addr: second, len: HUGE_BYTES, advice: advice::DONTNEED });
                self.call(Call::Write { addr: second + (30 + self.cpu) * PAGE, value: 4 });
            }
            PoolOperation::MapOver => {
                self.call(Call::Mmap { hint: third, len: HUGE_BYTES, prot: BOTH, flags: FIXED });
            }
            PoolOperation::Pin => {
                let addr = VirtAddr(second + (40 + self.cpu) * PAGE);
                drop(self.driver.space.pin_pages(addr, Access::Write, self.limit, [None]));
            }
            PoolOperation::Fork => {
                let child = self.driver.space.fork().expect("there is memory");
                let mut byte = [0];
                if child.copy_from(VirtAddr(self.own()), &mut byte) == Ok(1) && is_kept {
                    assert_eq!(byte[0], kept, "a child lacks a store from before its fork");
                }
            }
            PoolOperation::StoreShared => {
                self.store_shared(6);
                self.call(Call::Write { addr: SHARED + HUGE_BYTES + (2 + self.cpu) * PAGE, value: 6 });
                self.must_read_shared(self.driver.space, 6);
            }
            PoolOperation::DiscardShared => {
                self.store_shared(7);
                let len = SHARED_PAGES * HUGE_BYTES;
                self.call(Call::Madvise { addr: SHARED, len, advice: advice::DONTNEED });
                self.must_read_shared(self.driver.space, 7);
            }
            PoolOperation::UnmapShared => {
                self.call(Call::Munmap { addr: SHARED + HUGE_BYTES, len: HUGE_BYTES });
                let seen = self.call(Call::Read { addr: SHARED + HUGE_BYTES });
                assert!(!matches!(seen, CallResult::Byte(_)), "a page is reached where nothing is mapped");
            }
            PoolOperation::PinShared => {
                let addr = VirtAddr(self.own_shared());
                let pinned = self.driver.space.pin_pages(addr, Access::Write, self.limit, [None]);
                assert!(pinned.is_ok(), "a page of shared memory was set aside: {pinned:?}");
                self.store_shared(8);
                self.must_read_shared(self.driver.space, 8);
            }
            PoolOperation::ForkShared => {
                let child = self.driver.space.fork().expect("there is memory");
                let addr = VirtAddr(self.own_shared());
                assert_eq!(child.copy_to(addr, &[9]), Ok(1), "a page of shared memory was set aside");
                self.must_read_shared(self.driver.space, 9);
            }
        }
    }
}
