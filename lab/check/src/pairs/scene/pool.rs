//! Two CPUs at once on memory of the hugetlb pool, on the seeded machine.
//!
//! Both run a space that maps three pages of the pool, which has as many for a child's copies and one more,
//! and two pages of shared memory of the pool, which has those too; each CPU stores to a part of its own in
//! the first page. Each does an operation, then reads its part back. What holds whatever the order: a page
//! that is set aside is there for its fault, no CPU loses a store that is not discarded, or one to shared
//! memory, no TLB holds what is gone, and the pool's counts are what entries and objects say.

use super::{Cpu, Machine, Operation, Scene};
use crate::calls::{Call, CallResult, MapFlags, PAGE, Prot, advice};
use crate::drive::unordered;
use crate::huge::HUGE_BYTES;
use interleaf::machine::Format;
use interleaf::space::{AddressSpace, MapBacking, MapRequest, Place, Sharing};
use interleaf::units::{Access, PageSize, VirtAddr};
use interleaf::vma::{HugePolicy, MthpPolicies, SharedHugePolicy};
use interleaf_lab::machine::baton::Report;
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
    /// A fork, whose child reads the own part.
    Fork,
    /// A fork, whose child reads the own part, stores there and forks, beside a store of the parent, which
    /// takes its page back where the pool has none for a copy.
    ForkAndStore,
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
    pub const ALL: [Self; 14] = [
        Self::Store,
        Self::MapAgain,
        Self::Unmap,
        Self::Protect,
        Self::Discard,
        Self::MapOver,
        Self::Pin,
        Self::Fork,
        Self::ForkAndStore,
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
    let meets_all = |one| matches!(one, PoolOperation::MapAgain | PoolOperation::Fork);
    unordered(&PoolOperation::ALL)
        .filter(move |&(a, b)| a.is_of_shared() == b.is_of_shared() || meets_all(a) || meets_all(b))
}

/// The arena, in the main window of the setting.
const BASE: u64 = (16 << 40) + 64 * HUGE_BYTES;
const PAGES: u64 = 3;
/// Huge pages of the pool.
const POOL: u64 = 2 * PAGES + 1 + SHARED_PAGES;
/// Shared memory, behind a hole.
const SHARED: u64 = BASE + 8 * HUGE_BYTES;
const SHARED_PAGES: u64 = 2;
const BOTH: Prot = Prot::READ.union(Prot::WRITE);
const FIXED: MapFlags = MapFlags::FIXED.union(MapFlags::PRIVATE).union(MapFlags::ANONYMOUS);

/// Plays a pair with each seed. Returns how many steps there were.
///
/// # Errors
/// The first seed that went wrong.
pub fn run_pool_pair<F: Format>(
    pair: (PoolOperation, PoolOperation),
    seeds: Range<u64>,
) -> Result<u64, Box<Report>> {
    let policies = (HugePolicy::Never, MthpPolicies::NEVER);
    Scene { pool: POOL, huge: 4, policies, shared: SharedHugePolicy::Never, disk_bytes: None }
        .play::<F, _>(pair, seeds)
}

impl Operation for PoolOperation {
    fn map<F: Format>(cpu: &Cpu<'_, '_, F>) {
        Pool(cpu).map(0, PAGES);
        Pool(cpu).map_shared();
    }

    fn begin<F: Format>(cpu: &Cpu<'_, '_, F>) {
        Pool(cpu).store_own(1);
        if cpu.begins_with_second() {
            cpu.call(Call::Write { addr: BASE + HUGE_BYTES + 9 * PAGE, value: 9 });
        }
    }

    fn run<F: Format>(self, cpu: &Cpu<'_, '_, F>) {
        let cpu = Pool(cpu);
        let kept = 20 + cpu.0.cpu as u8;
        cpu.store_own(kept);
        // Refused while the other CPU takes the right to write.
        let is_kept = cpu.call(Call::Read { addr: cpu.own() }) == CallResult::Byte(kept);
        cpu.carry_out(self, kept, is_kept);
        if is_kept {
            let read = cpu.call(Call::Read { addr: cpu.own() });
            assert_eq!(read, CallResult::Byte(kept), "a store to the first page is lost");
        }
    }
}

/// A CPU at memory of the pool.
struct Pool<'a, 'b, 'v, F: Format>(&'a Cpu<'b, 'v, F>);

impl<'v, F: Format> Pool<'_, '_, 'v, F> {
    /// An address in the first page, which is never unmapped or discarded.
    fn own(&self) -> u64 {
        BASE + (5 + 100 * self.0.cpu) * PAGE
    }

    fn call(&self, call: Call) -> CallResult {
        self.0.call(call)
    }

    fn store_own(&self, value: u8) {
        self.call(Call::Write { addr: self.own(), value });
    }

    /// Maps pages of the pool, which has them.
    fn map(&self, page: u64, pages: u64) {
        let place = Place::Fixed(VirtAddr(BASE + page * HUGE_BYTES));
        let request = MapRequest { place, ..MapRequest::anonymous(pages * HUGE_BYTES) };
        let mapped = self.0.space().map(&request.backed_by(MapBacking::Hugetlb(PageSize::Huge)));
        assert!(mapped.is_ok(), "the pool has enough: {mapped:?}");
    }

    fn map_shared(&self) {
        let (place, sharing) = (Place::Fixed(VirtAddr(SHARED)), Sharing::Shared);
        let request = MapRequest { place, sharing, ..MapRequest::anonymous(SHARED_PAGES * HUGE_BYTES) };
        let mapped = self.0.space().map(&request.backed_by(MapBacking::Hugetlb(PageSize::Huge)));
        assert!(mapped.is_ok(), "the pool has enough: {mapped:?}");
    }

    /// An address in the first page of shared memory, which is never unmapped.
    fn own_shared(&self) -> u64 {
        SHARED + (3 + 50 * self.0.cpu) * PAGE
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

    /// Whatever the other CPU does, the child has what was there at its fork and what it stores, or nothing.
    fn fork_and_store(&self, kept: u8, is_kept: bool) {
        let own = VirtAddr(self.own());
        let child = self.0.space().fork().expect("there is memory");
        let holds = |space: &AddressSpace<'v, Machine<F>>, value: u8| {
            let mut byte = [0];
            let is_there = space.copy_from(own, &mut byte) == Ok(1);
            assert!(!is_there || !is_kept || byte == [value], "{byte:?} of a child, not {value}");
            is_there
        };
        assert!(holds(&child, kept), "nobody but this CPU takes the page back");
        let grandchild = child.fork().expect("there is memory");
        let stored = child.copy_to(own, &[77]) == Ok(1);
        let family = [self.0.space(), &child, &grandchild];
        let known = |id| family.into_iter().find(|space| space.id() == id);
        if self.call(Call::Write { addr: own.0, value: kept }) != CallResult::Written {
            // A child of the other CPU's is missing.
            let taken = self.0.space().unmap_hugetlb_sharers(own, known);
            if taken == Ok(true) {
                self.call(Call::Write { addr: own.0, value: kept });
            }
        }
        if stored {
            assert!(holds(&child, 77), "a child's own page is taken from it");
        }
        holds(&grandchild, kept);
    }

    fn carry_out(&self, operation: PoolOperation, kept: u8, is_kept: bool) {
        let (second, third) = (BASE + HUGE_BYTES, BASE + 2 * HUGE_BYTES);
        match operation {
            PoolOperation::Store => {
                self.call(Call::Write { addr: second + (7 + self.0.cpu) * PAGE, value: 3 });
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
                self.call(Call::Write { addr: second + (30 + self.0.cpu) * PAGE, value: 4 });
            }
            PoolOperation::MapOver => {
                self.call(Call::Mmap { hint: third, len: HUGE_BYTES, prot: BOTH, flags: FIXED });
            }
            PoolOperation::Pin => {
                let addr = VirtAddr(second + (40 + self.0.cpu) * PAGE);
                drop(self.0.space().pin_pages(addr, Access::Write, self.0.limit, [None]));
            }
            PoolOperation::Fork => {
                let child = self.0.space().fork().expect("there is memory");
                let mut byte = [0];
                if child.copy_from(VirtAddr(self.own()), &mut byte) == Ok(1) && is_kept {
                    assert_eq!(byte[0], kept, "a child lacks a store from before its fork");
                }
            }
            PoolOperation::ForkAndStore => self.fork_and_store(kept, is_kept),
            PoolOperation::StoreShared => {
                self.store_shared(6);
                self.call(Call::Write { addr: SHARED + HUGE_BYTES + (2 + self.0.cpu) * PAGE, value: 6 });
                self.must_read_shared(self.0.space(), 6);
            }
            PoolOperation::DiscardShared => {
                self.store_shared(7);
                let len = SHARED_PAGES * HUGE_BYTES;
                self.call(Call::Madvise { addr: SHARED, len, advice: advice::DONTNEED });
                self.must_read_shared(self.0.space(), 7);
            }
            PoolOperation::UnmapShared => {
                self.call(Call::Munmap { addr: SHARED + HUGE_BYTES, len: HUGE_BYTES });
                let seen = self.call(Call::Read { addr: SHARED + HUGE_BYTES });
                assert!(!matches!(seen, CallResult::Byte(_)), "a page is reached where nothing is mapped");
            }
            PoolOperation::PinShared => {
                let addr = VirtAddr(self.own_shared());
                let pinned = self.0.space().pin_pages(addr, Access::Write, self.0.limit, [None]);
                assert!(pinned.is_ok(), "a page of shared memory was set aside: {pinned:?}");
                self.store_shared(8);
                self.must_read_shared(self.0.space(), 8);
            }
            PoolOperation::ForkShared => {
                let child = self.0.space().fork().expect("there is memory");
                let addr = VirtAddr(self.own_shared());
                assert_eq!(child.copy_to(addr, &[9]), Ok(1), "a page of shared memory was set aside");
                self.must_read_shared(self.0.space(), 9);
            }
        }
    }
}
