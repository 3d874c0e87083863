//! Tables alone, against a model of pages, in several formats.

use crate::frame::{BootMap, Init, Memory, Region, RegionKind};
use crate::machine::testing::{TestCpu, TestFormat, TestMachine};
use crate::machine::{CacheType, Format, Machine};
use crate::sync::Rcu;
use crate::table::format::{Aarch64, Ept, Sv39, X86_64, X86_64La57};
use crate::table::{MapError, Mapper, PfnMapFrames};
use crate::units::{Access, NodeId, PAGE_SIZE, PageSize, Pfn, PfnRange, Rights, Vpn, VpnRange};
use std::collections::BTreeMap;
use std::vec::Vec;

pub(super) const USER_RW: Rights = Rights::READ.union(Rights::WRITE).union(Rights::USER);
pub(super) const USER_RO: Rights = Rights::READ.union(Rights::USER);
/// The PFN-mapped frames: far from the machine's memory, and aligned to 2 MiB.
pub(super) const FRAMES: PfnRange = PfnRange { start: Pfn(0x8_0000), end: Pfn(0x8_0000 + 4096) };

/// Calls `f` with a machine, its memory, and an RCU. Afterwards all frames but theirs are free again.
pub(super) fn with_memory<F: Format>(
    f: impl FnOnce(&TestMachine<F>, &Memory<'_, TestMachine<F>>, &Rcu<'_, TestCpu>),
) {
    let machine = TestMachine::<F>::of_format(512, 1);
    let (start, len_bytes) = (machine.frames().start.addr(), machine.frames().len() * PAGE_SIZE as u64);
    let region = Region { start, len_bytes, kind: RegionKind::Usable(Init::Dirty), node: NodeId(0) };
    let memory = Memory::new(&machine, BootMap::new(&[region]).unwrap()).unwrap();
    let rcu = Rcu::carve(&mut memory.boot_allocator(), 1).unwrap();
    let before = memory.check().unwrap().allocated;
    f(&machine, &memory, &rcu);
    (0..4).for_each(|_| rcu.wait(&machine, &memory));
    assert_eq!(memory.check().unwrap().allocated, before, "{}: tables are lost", F::NAME);
}

pub(super) fn pfnmap() -> PfnMapFrames {
    // SAFETY: no hardware follows the tables; the test machine's MMU reads entries, and not what they map.
    unsafe { PfnMapFrames::new(FRAMES, Rights::all(), CacheType::WriteBack) }
}

pub(super) fn range(start: u64, len: u64) -> VpnRange {
    VpnRange { start: Vpn(start), end: Vpn(start + len) }
}

/// What each base page shows: frame, rights, size.
type Model = BTreeMap<u64, (Pfn, Rights, PageSize)>;

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 >> 33) % end
    }
}

/// The pages of the range that the model has, without those of larger pages that its ends cut; and whether
/// there are such.
fn whole(model: &Model, pages: VpnRange) -> (Vec<u64>, bool) {
    let inside = model.range(pages.start.0..pages.end.0);
    let head = |page: u64, size: PageSize| page & !(size.pages() - 1);
    let (whole, cut): (Vec<_>, Vec<_>) = inside
        .map(|(&page, &(_, _, size))| (page, range(head(page, size), size.pages())))
        .partition(|(_, all)| pages.covers(*all));
    (whole.into_iter().map(|(page, _)| page).collect(), !cut.is_empty())
}

/// One random call, on the model too.
fn step<M: Machine, T: Fn(VpnRange)>(
    random: &mut Random,
    mapper: &Mapper<'_, M, T>,
    model: &mut Model,
    base: u64,
) {
    let size = if random.below(3) == 0 { PageSize::Huge } else { PageSize::Base };
    let (unit, rights) = (size.pages(), [USER_RW, USER_RO, Rights::empty()][random.below(3) as usize]);
    let len = (1 + random.below(if size == PageSize::Huge { 3 } else { 700 })) * unit;
    let pages = range(base + random.below((WINDOW - len) / unit + 1) * unit, len);
    let (found, is_cut) = whole(model, pages);
    match random.below(4) {
        0 | 1 => {
            let first = Pfn(FRAMES.start.0 + random.below((FRAMES.len() - len) / unit + 1) * unit);
            let frames = PfnRange::new(first, first.add(len));
            let result = mapper.map(pages.start, &pfnmap(), frames, size, rights);
            let is_free = found.is_empty() && !is_cut;
            assert_eq!(result, if is_free { Ok(()) } else { Err(MapError::AlreadyMapped) });
            let new =
                (0..len).map(|page| (pages.start.0 + page, (first.add(page / unit * unit), rights, size)));
            model.extend(new.filter(|_| is_free));
        }
        2 => {
            let nr = found.len() as u64;
            assert_eq!(mapper.unmap(pages), if is_cut { Err(MapError::PartOfPage) } else { Ok(nr) });
            model.retain(|page, _| !found.contains(page));
        }
        _ => {
            let result = mapper.protect(pages, rights, &pfnmap());
            assert_eq!(result, if is_cut { Err(MapError::PartOfPage) } else { Ok(()) });
            found.iter().for_each(|page| model.get_mut(page).unwrap().1 = rights);
        }
    }
}

/// Pages that random calls are about: four tables of the last level.
const WINDOW: u64 = 2048;

/// Random calls; after each the tables, and what the MMU translates, say what the model says.
fn agrees<F: Format>(base: u64, seed: u64) {
    with_memory::<F>(|machine, memory, rcu| {
        let mapper = Mapper::new(memory, rcu, |pages| machine.flush_range(pages)).unwrap();
        machine.load_root(Some(machine.root_table(mapper.root())));
        let (mut random, mut model) = (Random(seed), Model::new());
        for _ in 0..60 {
            step(&mut random, &mapper, &mut model, base);
            if F::REMEMBERS_REFUSALS {
                // It may remember that nothing was there: the mapping call says so to the CPU.
                machine.flush_range(range(base, WINDOW));
            }
            for page in (base..base + WINDOW).step_by(37) {
                let shown = mapper.query(Vpn(page)).map(|(leaf, size)| (leaf.pfn, leaf.rights, size));
                assert_eq!(shown, model.get(&page).copied(), "{}: page {page:#x}", F::NAME);
                let seen = machine.translate(Vpn(page), Access::Read).map(|leaf| leaf.pfn);
                let readable = model.get(&page).filter(|it| it.1.contains(Rights::READ)).map(|it| it.0);
                assert_eq!(seen, readable, "{}: page {page:#x} in the TLB", F::NAME);
            }
        }
        machine.load_root(None);
    });
}

#[test]
fn random_calls_agree_with_a_model_in_every_format() {
    for seed in 0..20 {
        agrees::<TestFormat>(0x1_0000, seed);
        agrees::<X86_64>(0, seed);
        agrees::<X86_64La57>(1 << 40, seed);
        agrees::<Aarch64>(0x1_0000, seed);
        agrees::<Sv39>(0x1_0000, seed);
        agrees::<Ept>(0x1_0000, seed);
    }
}

#[test]
fn every_page_that_a_format_translates_can_be_mapped() {
    // The upper half of virtual addresses, and of a guest's.
    agrees::<X86_64>((1 << 52) - WINDOW, 1);
    agrees::<Sv39>((1 << 52) - (1 << 26), 2);
    agrees::<Ept>((1 << 36) - WINDOW, 3);
}

#[test]
fn a_page_of_1_gib_lies_in_the_root_of_sv39() {
    with_memory::<Sv39>(|_, memory, rcu| {
        let giant = PfnRange::new(Pfn(1 << 18), Pfn(1 << 19));
        // SAFETY: no hardware follows the tables.
        let pfnmap = unsafe { PfnMapFrames::new(giant, USER_RO, CacheType::Device) };
        let mapper = Mapper::new(memory, rcu, |_| ()).unwrap();
        let at = Vpn(3 << 18);
        assert_eq!(mapper.map(at, &pfnmap, giant, PageSize::Giant, USER_RO), Ok(()));
        let (leaf, size) = mapper.query(at.add(12_345)).unwrap();
        assert_eq!((leaf.pfn, leaf.cache, size), (giant.start, CacheType::Device, PageSize::Giant));
        assert_eq!(mapper.map(at.add(7), &pfnmap, page(1 << 18), PageSize::Base, USER_RO), ALREADY);
        assert_eq!(mapper.unmap(VpnRange { start: at, end: at.add(1 << 18) }), Ok(1 << 18));
    });
}

const ALREADY: Result<(), MapError> = Err(MapError::AlreadyMapped);

fn page(pfn: u64) -> PfnRange {
    PfnRange::new(Pfn(pfn), Pfn(pfn + 1))
}

#[test]
fn what_pfn_map_frames_do_not_allow_is_not_mapped() {
    with_memory::<X86_64>(|_, memory, rcu| {
        // SAFETY: no hardware follows the tables.
        let read_only = unsafe { PfnMapFrames::new(FRAMES, USER_RO, CacheType::WriteBack) };
        let mapper = Mapper::new(memory, rcu, |_| ()).unwrap();
        let map = |at, frames, size, rights| mapper.map(Vpn(at), &read_only, frames, size, rights);
        let one = page(FRAMES.start.0);
        assert_eq!(map(8, one, PageSize::Base, USER_RW), Err(MapError::NotAllowed));
        assert_eq!(map(8, page(FRAMES.end.0), PageSize::Base, USER_RO), Err(MapError::NotAllowed));
        assert_eq!(map(8, page(FRAMES.start.0 - 1), PageSize::Base, USER_RO), Err(MapError::NotAllowed));
        assert_eq!(map(8, one, PageSize::Huge, USER_RO), Err(MapError::Misaligned));
        assert_eq!(map(1 << 35, one, PageSize::Base, USER_RO), Err(MapError::OutOfRange));
        assert_eq!(map(1 << 52, one, PageSize::Base, USER_RO), Err(MapError::OutOfRange));
        assert_eq!(map(8, one, PageSize::Base, USER_RO), Ok(()));
        assert_eq!(mapper.protect(range(8, 1), USER_RW, &read_only), Err(MapError::NotAllowed));
        assert_eq!(mapper.query(Vpn(8)).unwrap().0.rights, USER_RO);
        // Given by another caller.
        // SAFETY: as above.
        let other = unsafe { PfnMapFrames::new(page(1), Rights::all(), CacheType::WriteBack) };
        assert_eq!(mapper.protect(range(8, 1), USER_RW, &other), Err(MapError::NotAllowed));
    });
}

#[test]
fn what_a_format_cannot_say_is_refused() {
    with_memory::<Ept>(|_, memory, rcu| {
        let mapper = Mapper::new(memory, rcu, |_| ()).unwrap();
        let map =
            |frames: PfnRange, rights| mapper.map(Vpn(8), &anything(frames), frames, PageSize::Base, rights);
        assert_eq!(map(page(5), Rights::READ), Err(MapError::Unencodable));
        assert_eq!(map(page(5), Rights::WRITE | Rights::USER), Err(MapError::Unencodable));
        assert_eq!(map(page(1 << 40), USER_RO), Err(MapError::Unencodable));
        assert_eq!(map(page((1 << 40) - 1), USER_RO), Ok(()));
    });
    fn anything(frames: PfnRange) -> PfnMapFrames {
        // SAFETY: no hardware follows the tables.
        unsafe { PfnMapFrames::new(frames, Rights::all(), CacheType::WriteBack) }
    }
}

#[test]
fn a_lack_of_memory_leaves_nothing_mapped() {
    with_memory::<X86_64>(|_, memory, rcu| {
        let mapper = Mapper::new(memory, rcu, |_| ()).unwrap();
        // A table for each of four; the fifth allocation is that of the second last table.
        for nth in 1..=5 {
            memory.plan_mishap(nth);
            let result = mapper.map(Vpn(100), &pfnmap(), FRAMES, PageSize::Base, USER_RW);
            assert!(result == Err(MapError::NoMemory) || !cfg!(debug_assertions), "{result:?}");
            memory.plan_mishap(0);
            let left = (0..FRAMES.len()).find(|page| mapper.query(Vpn(100 + page)).is_some());
            assert!(left.is_none() || !cfg!(debug_assertions), "{left:?} is left");
        }
    });
}
