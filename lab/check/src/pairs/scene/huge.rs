//! Two CPUs at once on huge pages, on the seeded machine.
//!
//! Both run a space whose arena is two huge pages; each CPU has a page of its own in the first of them,
//! and has stored there. Each does an operation, then stores to its page again and reads it back. What
//! holds whatever the order: no CPU loses a store that is not discarded, none reaches a frame that is not
//! the page's, no TLB holds two sizes, and everything adds up.

use super::{Cpu, Machine, Operation, Scene};
use crate::calls::{Call, CallResult, MapFlags, PAGE, Prot, advice};
use crate::drive::unordered;
use crate::huge::HUGE_BYTES;
use interleaf::machine::Format;
use interleaf::space::{AddressSpace, Error};
use interleaf::sync::wait_until;
use interleaf::units::{Access, VirtAddr};
use interleaf::vma::{HugePolicy, MthpPolicies, SharedHugePolicy};
use interleaf_lab::machine::baton::{Baton, Report};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// What one CPU does to the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugeOperation {
    /// Store to a page of the second huge page, which is not there yet.
    Install,
    /// munmap of pages around the border of the two.
    UnmapBorder,
    /// munmap of the second.
    UnmapWhole,
    /// mprotect of pages around the border.
    ProtectBorder,
    /// mprotect of the first, to read-only and back.
    ProtectWhole,
    /// MADV_DONTNEED of pages around the border.
    DiscardBorder,
    /// MADV_DONTNEED of the second.
    DiscardWhole,
    /// MADV_FREE of the second, and of a part of it.
    Free,
    /// mmap with MAP_FIXED over pages around the border.
    MapOver,
    /// munmap of the first pages of the second, which leaves a table, and mmap with MAP_FIXED over all of it.
    MapOverWhole,
    /// A pin of the own page.
    Pin,
    /// A fork, whose child reads the own page.
    Fork,
    /// A store to the second each time that it was mapped anew. Played with [`CutAgain`](Self::CutAgain)
    /// alone.
    InstallAgain,
    /// munmap of the first pages of the second, and a fresh mapping of all of it, again and again.
    CutAgain,
    /// A pin of the own page, which splits the first huge page, and a collapse of it.
    Collapse,
    /// The same of the second, of which a page is stored to.
    CollapseSecond,
    /// Several stores to the own page, each read back.
    StoreOften,
    /// A fork, whose child reads the own page, stores beside it, unmaps the page after that, and forks.
    ForkAndStore,
}

impl HugeOperation {
    /// All that are played with each other.
    pub const ALL: [Self; 12] = [
        Self::Install,
        Self::UnmapBorder,
        Self::UnmapWhole,
        Self::ProtectBorder,
        Self::ProtectWhole,
        Self::DiscardBorder,
        Self::DiscardWhole,
        Self::Free,
        Self::MapOver,
        Self::MapOverWhole,
        Self::Pin,
        Self::Fork,
    ];
}

/// All unordered pairs.
pub fn all_huge() -> impl Iterator<Item = (HugeOperation, HugeOperation)> {
    unordered(&HugeOperation::ALL)
}

/// A collapse with each other operation, and two of them.
pub fn all_collapses() -> impl Iterator<Item = (HugeOperation, HugeOperation)> {
    use HugeOperation::{Collapse, CollapseSecond, StoreOften};
    let others = [StoreOften, Collapse, CollapseSecond].into_iter().chain(HugeOperation::ALL);
    others.flat_map(|other| [(Collapse, other), (other, CollapseSecond)])
}

/// A child that uses what it shares, with each other operation, and two of them.
pub fn all_forks() -> impl Iterator<Item = (HugeOperation, HugeOperation)> {
    use HugeOperation::{Collapse, CollapseSecond, ForkAndStore, StoreOften};
    let others = [ForkAndStore, StoreOften, Collapse, CollapseSecond].into_iter().chain(HugeOperation::ALL);
    others.map(|other| (ForkAndStore, other))
}

/// The arena, in the main window of the setting.
const BASE: u64 = (16 << 40) + 64 * HUGE_BYTES;
/// Pages around the border of the two huge pages.
const BORDER: (u64, u64) = (BASE + HUGE_BYTES - 2 * PAGE, 4 * PAGE);
/// Huge pages' worth of frames: the arena, a child's copies, and what goes beside.
const HUGE_FRAMES: u64 = 8;
/// Rounds of what is done again and again.
const ROUNDS: u64 = 30;
const BOTH: Prot = Prot::READ.union(Prot::WRITE);

/// Plays faults that install a huge page again and again against a writer that cuts it: few steps lie between
/// the questions of such a fault and its store.
///
/// # Errors
/// The first seed that went wrong.
pub fn run_huge_cuts<F: Format>(seeds: Range<u64>) -> Result<u64, Box<Report>> {
    run_huge_pair::<F>((HugeOperation::InstallAgain, HugeOperation::CutAgain), seeds)
}

/// Plays a pair with each seed. Returns how many steps there were.
///
/// # Errors
/// The first seed that went wrong.
pub fn run_huge_pair<F: Format>(
    pair: (HugeOperation, HugeOperation),
    seeds: Range<u64>,
) -> Result<u64, Box<Report>> {
    run_pair_with::<F>(pair, (HugePolicy::Always, MthpPolicies::NEVER), seeds)
}

/// As [`run_huge_pair`], with folios of these sizes and no huge pages.
///
/// # Errors
/// The first seed that went wrong.
pub fn run_size_pair<F: Format>(
    pair: (HugeOperation, HugeOperation),
    sizes: MthpPolicies,
    seeds: Range<u64>,
) -> Result<u64, Box<Report>> {
    run_pair_with::<F>(pair, (HugePolicy::Never, sizes), seeds)
}

/// As [`run_huge_cuts`], with folios of these sizes and no huge pages.
///
/// # Errors
/// The first seed that went wrong.
pub fn run_size_cuts<F: Format>(sizes: MthpPolicies, seeds: Range<u64>) -> Result<u64, Box<Report>> {
    run_size_pair::<F>((HugeOperation::InstallAgain, HugeOperation::CutAgain), sizes, seeds)
}

fn run_pair_with<F: Format>(
    pair: (HugeOperation, HugeOperation),
    policies: (HugePolicy, MthpPolicies),
    seeds: Range<u64>,
) -> Result<u64, Box<Report>> {
    Scene { pool: 0, huge: HUGE_FRAMES, policies, shared: SharedHugePolicy::Never, disk_bytes: None }
        .play::<F, _>(pair, seeds)
}

impl Operation for HugeOperation {
    fn map<F: Format>(cpu: &Cpu<'_, '_, F>) {
        let flags = MapFlags::FIXED | MapFlags::PRIVATE | MapFlags::ANONYMOUS;
        cpu.call(Call::Mmap { hint: BASE, len: 2 * HUGE_BYTES, prot: BOTH, flags });
    }

    fn begin<F: Format>(cpu: &Cpu<'_, '_, F>) {
        cpu.store(1);
        if cpu.begins_with_second() {
            cpu.call(Call::Write { addr: BASE + HUGE_BYTES + 9 * PAGE, value: 9 });
        }
    }

    fn run<F: Format>(self, cpu: &Cpu<'_, '_, F>) {
        let kept = 20 + cpu.cpu as u8;
        cpu.store(kept);
        cpu.carry_out(self);
        assert_eq!(cpu.load(), CallResult::Byte(kept), "a store to the first huge page is lost");
        let answer = cpu.call(Call::Write { addr: cpu.own_page(), value: kept + 10 });
        if answer == CallResult::Written {
            assert_eq!(cpu.load(), CallResult::Byte(kept + 10));
        }
    }
}

impl<F: Format> Cpu<'_, '_, F> {
    fn own_page(&self) -> u64 {
        BASE + (5 + 100 * self.cpu) * PAGE
    }

    /// Stores to the own page, which is never unmapped.
    fn store(&self, value: u8) {
        self.call(Call::Write { addr: self.own_page(), value });
    }

    fn load(&self) -> CallResult {
        self.call(Call::Read { addr: self.own_page() })
    }

    /// Cuts the first pages off a huge page, which nothing may map then, and maps all of it anew.
    fn cut_and_map(&self, start: u64) {
        self.call(Call::Munmap { addr: start, len: 2 * PAGE });
        for addr in [start, start + PAGE] {
            let seen = self.call(Call::Read { addr });
            assert!(!matches!(seen, CallResult::Byte(_)), "a page is reached where nothing is mapped");
        }
        // The table of base pages goes with the last of its mappings.
        self.call(Call::Munmap { addr: start, len: HUGE_BYTES });
        let flags = MapFlags::FIXED | MapFlags::PRIVATE | MapFlags::ANONYMOUS;
        self.call(Call::Mmap { hint: start, len: HUGE_BYTES, prot: BOTH, flags });
    }

    /// MADV_COLLAPSE of a region.
    fn collapse(&self, addr: u64) {
        let result = self.driver.space.collapse(VirtAddr(addr), HUGE_BYTES);
        let is_known = matches!(result, Ok(()) | Err(Error::Again | Error::Invalid | Error::NoMemory));
        assert!(is_known, "{result:?}");
    }

    /// A child splits its leaf of the first huge page, of which others in the family have theirs.
    fn fork_and_store(&self) {
        let child = self.driver.space.fork().expect("there is memory");
        let own = VirtAddr(self.own_page());
        let [beside, after] = [1, 2].map(|page| VirtAddr(own.0 + page * PAGE));
        let is = |space: &AddressSpace<'_, Machine<F>>, addr, value| {
            let mut byte = [0];
            assert_eq!(space.copy_from(addr, &mut byte), Ok(1));
            assert_eq!(byte[0], value, "{addr:?} of a child");
        };
        is(&child, own, 20 + self.cpu as u8);
        if child.copy_to(beside, &[77]) == Ok(1) {
            is(&child, beside, 77);
        }
        child.unmap(after, PAGE).expect("there is memory");
        let grandchild = child.fork().expect("there is memory");
        self.store(20 + self.cpu as u8);
        for space in [&child, &grandchild] {
            is(space, own, 20 + self.cpu as u8);
        }
    }

    fn carry_out(&self, operation: HugeOperation) {
        let second = BASE + HUGE_BYTES;
        let (addr, len) = BORDER;
        match operation {
            HugeOperation::Install => {
                self.call(Call::Write { addr: second + (7 + self.cpu) * PAGE, value: 3 });
            }
            HugeOperation::UnmapBorder => {
                self.call(Call::Munmap { addr, len });
            }
            HugeOperation::UnmapWhole => {
                self.call(Call::Munmap { addr: second, len: HUGE_BYTES });
            }
            HugeOperation::ProtectBorder => {
                self.call(Call::Mprotect { addr, len, prot: Prot::READ });
            }
            HugeOperation::ProtectWhole => {
                for prot in [Prot::READ, BOTH] {
                    self.call(Call::Mprotect { addr: BASE, len: HUGE_BYTES, prot });
                }
            }
            HugeOperation::DiscardBorder => {
                self.call(Call::Madvise { addr, len, advice: advice::DONTNEED });
            }
            HugeOperation::DiscardWhole => {
                self.call(Call::Madvise { addr: second, len: HUGE_BYTES, advice: advice::DONTNEED });
                self.call(Call::Write { addr: second + (30 + self.cpu) * PAGE, value: 4 });
            }
            HugeOperation::Free => {
                self.call(Call::Madvise { addr: second, len: HUGE_BYTES, advice: advice::FREE });
                self.call(Call::Madvise { addr: second, len: PAGE, advice: advice::FREE });
            }
            HugeOperation::MapOver => {
                let flags = MapFlags::FIXED | MapFlags::PRIVATE | MapFlags::ANONYMOUS;
                self.call(Call::Mmap { hint: addr, len, prot: BOTH, flags });
            }
            HugeOperation::MapOverWhole => {
                self.call(Call::Munmap { addr: second, len: 2 * PAGE });
                let flags = MapFlags::FIXED | MapFlags::PRIVATE | MapFlags::ANONYMOUS;
                self.call(Call::Mmap { hint: second, len: HUGE_BYTES, prot: BOTH, flags });
                self.call(Call::Write { addr: second + (40 + self.cpu) * PAGE, value: 8 });
            }
            HugeOperation::Pin => {
                let addr = VirtAddr(self.own_page());
                drop(self.driver.space.pin_pages(addr, Access::Read, self.limit, [None]));
            }
            HugeOperation::Collapse => {
                let addr = VirtAddr(self.own_page());
                drop(self.driver.space.pin_pages(addr, Access::Read, self.limit, [None]));
                self.collapse(BASE);
            }
            HugeOperation::CollapseSecond => {
                let addr = second + (50 + self.cpu) * PAGE;
                if self.call(Call::Write { addr, value: 6 }) == CallResult::Written {
                    drop(self.driver.space.pin_pages(VirtAddr(addr), Access::Read, self.limit, [None]));
                }
                self.collapse(second);
            }
            HugeOperation::StoreOften => {
                for value in 100..106 {
                    self.store(value);
                    let read = self.load();
                    assert_eq!(read, CallResult::Byte(value), "a store is lost");
                }
                self.store(20 + self.cpu as u8);
            }
            HugeOperation::Fork => {
                let child = self.driver.space.fork().expect("there is memory");
                let mut byte = [0];
                assert_eq!(child.copy_from(VirtAddr(self.own_page()), &mut byte), Ok(1));
                assert_eq!(byte[0], 20 + self.cpu as u8, "a child lacks a store from before its fork");
            }
            HugeOperation::ForkAndStore => self.fork_and_store(),
            HugeOperation::InstallAgain => {
                for round in 0..ROUNDS {
                    wait_until::<Baton>(|| self.rounds.load(Relaxed) >= round);
                    self.call(Call::Write { addr: second + 7 * PAGE, value: 3 });
                }
            }
            HugeOperation::CutAgain => {
                for round in 0..ROUNDS {
                    self.cut_and_map(second);
                    self.rounds.store(round + 1, Relaxed);
                }
            }
        }
    }
}
