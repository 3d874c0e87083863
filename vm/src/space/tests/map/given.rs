//! PFN mappings against a model of pages: leaves of all sizes, cut by every writer.

use crate::machine::testing::{TestCpu, TestMachine};
use crate::machine::{CacheType, Cpu, Entry, Leaf};
use crate::space::tests::world::mishaps::each_allocation;
use crate::space::tests::world::{PAGE, boot_map, space_of};
use crate::space::{
    AddressSpace, Advice, Counter, Error, Fault, FaultError, MapBacking, MapRequest, Place, Sharing, Vm,
};
use crate::table::testing::pfnmap_nowhere;
use crate::table::{PfnMapFrames, walk};
use crate::units::{Access, Level, PageSize, Pfn, PfnRange, Rights, VirtAddr, Vpn};
use crate::vma::{FlagAdvice, VmaFlags};
use std::collections::BTreeMap;
use std::vec::Vec;

type TestSpace<'v> = AddressSpace<'v, TestMachine>;
type TestVm<'m> = Vm<'m, TestMachine>;
const READ_WRITE: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE);
const USER_RO: Rights = Rights::READ.union(Rights::USER);
const USER_RW: Rights = USER_RO.union(Rights::WRITE);
const HUGE: u64 = PageSize::Huge.pages();
const GIANT: u64 = PageSize::Giant.pages();
/// The first frame that was given: a multiple of all sizes, and far from the machine's memory.
const FIRST: u64 = 16 * GIANT;
/// A page that is a multiple of all sizes.
const BASE: u64 = 8 * GIANT;

fn pfnmap() -> PfnMapFrames {
    pfnmap_nowhere(PfnRange { start: Pfn(FIRST), end: Pfn(FIRST + 8 * GIANT) }, Rights::all())
}

/// Runs the test with an empty space. Afterwards as many frames are allocated as before.
fn with_space(test: impl FnOnce(&TestVm<'_>, TestSpace<'_>)) {
    let machine = TestMachine::new(1000);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let allocated = || {
        vm.trim();
        vm.memory().check().unwrap().allocated
    };
    let before = allocated();
    test(&vm, space_of(&vm));
    assert_eq!(allocated(), before, "frames allocated before and after");
}

fn at(page: u64) -> VirtAddr {
    Vpn(page).addr()
}

fn leaves_of(frames: &PfnMapFrames, first: u64, largest: PageSize) -> MapBacking<'_> {
    MapBacking::Pfn { frames, first: Pfn(first), largest }
}

fn request(page: u64, pages: u64) -> MapRequest<'static> {
    MapRequest {
        place: Place::Fixed(at(page)),
        sharing: Sharing::Shared,
        ..MapRequest::anonymous(pages * PAGE)
    }
}

fn map(space: &TestSpace<'_>, page: u64, pages: u64, first: u64) {
    space.map(&request(page, pages).backed_by(leaves_of(&pfnmap(), first, PageSize::Giant))).unwrap();
}

/// The leaf that maps the page, and the pages that it covers.
fn leaf(space: &TestSpace<'_>, page: u64) -> Option<(Leaf, u64)> {
    let reading = space.vm().read();
    let found = walk(space.inspect().page_table(), Vpn(page), Level::Pte, &reading);
    match found.entry() {
        Entry::Leaf(leaf) => Some((leaf, found.table.level().entry_pages())),
        Entry::Absent => None,
        other => panic!("{other:?} was left at page {page:#x}"),
    }
}

/// Frame and rights of the page, as the tables say.
fn shown(space: &TestSpace<'_>, page: u64) -> Option<(u64, Rights)> {
    let (leaf, covers) = leaf(space, page)?;
    Some((leaf.pfn.0 + (page & (covers - 1)), leaf.rights))
}

/// Sizes of the leaves of a range, in order.
fn sizes(space: &TestSpace<'_>, start: u64, end: u64) -> Vec<u64> {
    let (mut page, mut sizes) = (start, Vec::new());
    while page < end {
        let covers = leaf(space, page).map_or(1, |(_, covers)| covers);
        sizes.push(covers);
        page += covers;
    }
    sizes
}

#[test]
fn the_largest_leaves_that_fit_map_the_frames() {
    with_space(|vm, space| {
        map(&space, BASE + 510, GIANT * 2, FIRST + 510);
        let all = sizes(&space, BASE + 510, BASE + 510 + GIANT * 2);
        let count = |size| all.iter().filter(|&&covers| covers == size).count() as u64;
        assert_eq!([count(1), count(HUGE), count(GIANT)], [2 + 510, 511, 1]);
        for page in [0, 1, 2, HUGE, GIANT - 1, GIANT, GIANT * 2 - 1] {
            let (at, frame) = (BASE + 510 + page, FIRST + 510 + page);
            assert_eq!(shown(&space, at), Some((frame, USER_RW)));
            assert_eq!(space.inspect().resident_frame(Vpn(at)), Some((Pfn(frame), true)));
        }
        space
            .map(&request(BASE + 4 * GIANT, HUGE).backed_by(leaves_of(&pfnmap(), FIRST, PageSize::Base)))
            .unwrap();
        assert_eq!(sizes(&space, BASE + 4 * GIANT, BASE + 4 * GIANT + HUGE).len() as u64, HUGE);
        assert_eq!(vm.totals().get(Counter::TlbFlush), 0, "nothing was mapped before");
    });
}

#[test]
fn a_place_is_chosen_where_huge_leaves_fit() {
    with_space(|_, space| {
        for (first, pages, largest, leaves) in [
            (FIRST, 3 * HUGE, PageSize::Huge, 3),
            (FIRST + 7, HUGE - 7 + HUGE, PageSize::Giant, HUGE - 7 + 1),
        ] {
            let anywhere = MapRequest { place: Place::Hint(VirtAddr(0)), ..request(0, pages) };
            let start = space.map(&anywhere.backed_by(leaves_of(&pfnmap(), first, largest))).unwrap().vpn().0;
            assert_eq!(sizes(&space, start, start + pages).len() as u64, leaves);
            assert_eq!(shown(&space, start), Some((first, USER_RW)));
            assert_eq!(space.inspect().vma_at(at(start)).unwrap().range.len(), pages);
        }
        let here = MapRequest { place: Place::Hint(at(BASE)), ..request(0, HUGE) };
        assert_eq!(space.map(&here.backed_by(leaves_of(&pfnmap(), FIRST, PageSize::Huge))), Ok(at(BASE)));
    });
}

#[test]
fn a_range_that_cuts_leaves_splits_them_and_no_other() {
    with_space(|vm, space| {
        map(&space, BASE, 2 * GIANT, FIRST);
        space.unmap(at(BASE + GIANT + HUGE + 3), PAGE).unwrap();
        assert_eq!(vm.totals().get(Counter::TlbFlush), 3, "a flush for each size, and one for the page");
        assert_eq!(shown(&space, BASE + GIANT + HUGE + 3), None);
        let all = sizes(&space, BASE, BASE + 2 * GIANT);
        let count = |size| all.iter().filter(|&&covers| covers == size).count() as u64;
        assert_eq!([count(1), count(HUGE), count(GIANT)], [HUGE, 511, 1]);
        let around = [0, GIANT, GIANT + HUGE + 2, GIANT + HUGE + 4, GIANT + 2 * HUGE, 2 * GIANT - 1];
        assert!(around.iter().all(|&page| shown(&space, BASE + page) == Some((FIRST + page, USER_RW))));
        space.protect(at(BASE + HUGE), HUGE * PAGE, VmaFlags::READ).unwrap();
        assert_eq!(shown(&space, BASE + HUGE - 1), Some((FIRST + HUGE - 1, USER_RW)));
        assert_eq!(
            leaf(&space, BASE + HUGE).map(|(leaf, covers)| (leaf.rights, covers)),
            Some((USER_RO, HUGE))
        );
        assert_eq!(shown(&space, BASE + 2 * HUGE), Some((FIRST + 2 * HUGE, USER_RW)));
    });
}

#[test]
fn a_split_keeps_rights_cache_type_and_what_the_hardware_noted() {
    with_space(|_, space| {
        let device = pfnmap().cached_as(CacheType::Device);
        space.map(&request(BASE, HUGE).backed_by(leaves_of(&device, FIRST, PageSize::Huge))).unwrap();
        let (before, _) = leaf(&space, BASE).unwrap();
        assert!(before.dirty && before.accessed && before.cache == CacheType::Device);
        space.unmap(at(BASE), PAGE).unwrap();
        for page in 1..HUGE {
            let expected = Leaf { pfn: Pfn(FIRST + page), ..before };
            assert_eq!(leaf(&space, BASE + page), Some((expected, 1)));
        }
    });
}

#[test]
fn rights_come_back_to_a_huge_leaf_by_a_fault() {
    with_space(|_, space| {
        map(&space, BASE, HUGE, FIRST);
        let write = Fault { addr: at(BASE + 5), access: Access::Write };
        space.protect(at(BASE), HUGE * PAGE, VmaFlags::READ).unwrap();
        assert_eq!(space.fault(write), Err(FaultError::NotAllowed));
        space.protect(at(BASE), HUGE * PAGE, READ_WRITE).unwrap();
        space.fault(write).unwrap();
        assert_eq!(leaf(&space, BASE).map(|(leaf, covers)| (leaf.rights, covers)), Some((USER_RW, HUGE)));
        space.protect(at(BASE), HUGE * PAGE, VmaFlags::empty()).unwrap();
        assert_eq!(leaf(&space, BASE).map(|(leaf, _)| leaf.rights), Some(Rights::empty()));
        let child = space.fork().unwrap();
        assert_eq!(leaf(&child, BASE).map(|(leaf, _)| leaf.rights), Some(Rights::empty()));
    });
}

#[test]
fn what_linux_refuses_for_frames_of_others_is_refused() {
    with_space(|_, space| {
        let read_only = pfnmap_nowhere(PfnRange { start: Pfn(FIRST), end: Pfn(FIRST + HUGE) }, USER_RO);
        let refused = |request: &MapRequest<'_>, pfnmap: &PfnMapFrames, first| {
            space.map(&request.backed_by(leaves_of(pfnmap, first, PageSize::Huge))).unwrap_err()
        };
        assert_eq!(refused(&request(BASE, 1), &read_only, FIRST), Error::Access);
        let reads = MapRequest { flags: VmaFlags::READ, ..request(BASE, HUGE) };
        assert_eq!(refused(&reads, &read_only, FIRST + 1), Error::Invalid, "one frame too many");
        assert_eq!(refused(&reads, &read_only, u64::MAX), Error::Invalid);
        assert_eq!(
            refused(&MapRequest { sharing: Sharing::Private, ..reads }, &read_only, FIRST),
            Error::Invalid
        );
        assert_eq!(refused(&MapRequest { len_bytes: 0, ..reads }, &read_only, FIRST), Error::Invalid);
        space.map(&reads.backed_by(leaves_of(&read_only, FIRST, PageSize::Huge))).unwrap();
        assert_eq!(refused(&reads, &read_only, FIRST + 1), Error::Invalid);
        assert_eq!(shown(&space, BASE), Some((FIRST, USER_RO)), "what was there stays");
        assert_eq!(space.protect(at(BASE), PAGE, READ_WRITE), Err(Error::Access));
        for advice in [
            Advice::DontNeed,
            Advice::Free,
            Advice::Cold,
            Advice::Flag(FlagAdvice::WipeOnFork),
            Advice::Flag(FlagAdvice::DoFork),
            Advice::Flag(FlagAdvice::DoDump),
        ] {
            assert_eq!(space.advise(at(BASE), PAGE, advice), Err(Error::Invalid), "{advice:?}");
        }
        assert!(space.object_at(at(BASE)).is_none());
        assert_eq!(leaf(&space, BASE).map(|(_, covers)| covers), Some(HUGE), "untouched");
        map(&space, BASE + HUGE, HUGE, FIRST + HUGE);
        assert_eq!(space.inspect().nr_mappings(), 2, "not merged");
    });
}

#[test]
fn no_cpu_keeps_the_translation_of_a_leaf_that_was_split() {
    let machine = TestMachine::with_cpus(1000, 2);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let space = space_of(&vm);
    map(&space, BASE, HUGE, FIRST);
    machine.run_as(1);
    core::mem::forget(space.activate(None));
    assert!(machine.translate(Vpn(BASE + 5), Access::Write).is_some());
    std::thread::scope(|scope| {
        let unmapping = scope.spawn(|| {
            machine.run_as(0);
            space.unmap(at(BASE + 100), PAGE).unwrap();
        });
        while !unmapping.is_finished() {
            TestCpu::relax();
        }
    });
    assert!(!machine.has_cached(1, Vpn(BASE + 5)), "a TLB holds two sizes");
    assert_eq!(vm.shootdown_stats().sent, 2, "one for the split, one for the page");
    drop(space.active_here().unwrap());
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 >> 33) % end
    }
}

/// Frame and rights of each page that is mapped.
type Model = BTreeMap<u64, (u64, Rights)>;
/// Pages of the arena of the random tests.
const ARENA: u64 = 4 * HUGE;

fn compare(space: &TestSpace<'_>, model: &Model, what: &str) {
    for page in BASE..BASE + ARENA {
        assert_eq!(shown(space, page), model.get(&page).copied(), "page {} after {what}", page - BASE);
    }
    space.inspect().check_index().unwrap();
}

/// Does one random operation to the space and the model. Returns its name.
fn step(random: &mut Random, space: &TestSpace<'_>, model: &mut Model) -> &'static str {
    let unit = [1, 1, 64, HUGE][random.below(4) as usize];
    let start = BASE + random.below(ARENA / unit) * unit;
    let pages = (1 + random.below(2 * HUGE / unit)) * unit;
    let pages = pages.min(BASE + ARENA - start);
    let range = start..start + pages;
    match random.below(4) {
        0 | 1 => {
            let first = FIRST + random.below(2) * HUGE + (start - BASE) % HUGE + random.below(2) * 7;
            map(space, start, pages, first);
            model.extend(range.map(|page| (page, (first + page - start, USER_RW))));
            "map"
        }
        2 => {
            space.unmap(at(start), pages * PAGE).unwrap();
            model.retain(|page, _| !range.contains(page));
            "unmap"
        }
        _ => {
            let protected = space.protect(at(start), pages * PAGE, VmaFlags::READ);
            let hole = range.clone().find(|page| !model.contains_key(page));
            assert_eq!(protected, if hole.is_some() { Err(Error::NoMemory) } else { Ok(()) });
            model.range_mut(start..hole.unwrap_or(range.end)).for_each(|(_, (_, rights))| *rights = USER_RO);
            "protect"
        }
    }
}

#[test]
fn random_calls_leave_what_a_model_of_pages_says_also_in_a_child() {
    for seed in 0..12 {
        with_space(|_, space| {
            let (mut random, mut model) = (Random(seed), Model::new());
            for nth in 0..60 {
                let what = step(&mut random, &space, &mut model);
                compare(&space, &model, what);
                if nth % 20 == 19 {
                    let child = space.fork().unwrap();
                    compare(&child, &model, "fork");
                    child.unmap(at(BASE + 3), HUGE * PAGE).unwrap();
                    compare(&space, &model, "the child's unmap");
                }
            }
        });
    }
}

#[test]
fn a_lack_of_memory_changes_nothing() {
    type Call = fn(&TestSpace<'_>) -> Result<(), Error>;
    let calls: [(&str, Call); 4] = [
        ("unmap", |space| space.unmap(at(BASE + 3), (GIANT + HUGE) * PAGE)),
        ("protect", |space| space.protect(at(BASE + 3), (GIANT + HUGE) * PAGE, VmaFlags::READ)),
        ("map", |space| {
            let place = Place::FixedNoReplace(at(BASE + 3 * GIANT));
            let free = MapRequest { place, ..request(0, 5 * HUGE + 9) };
            space.map(&free.backed_by(leaves_of(&pfnmap(), FIRST, PageSize::Huge))).map(drop)
        }),
        ("map over", |space| {
            space
                .map(&MapRequest { place: Place::Fixed(at(BASE + 3)), ..MapRequest::anonymous(PAGE) })
                .map(drop)
        }),
    ];
    for (name, call) in calls {
        let allocations = each_allocation(|nth| {
            let mut has_struck = false;
            with_space(|vm, space| {
                map(&space, BASE, 2 * GIANT, FIRST);
                let state = |space: &TestSpace<'_>| {
                    // The last: where a mapping is refused after some of its leaves were there.
                    let refused = [0, 4 * HUGE, 5 * HUGE].map(|page| shown(space, BASE + 3 * GIANT + page));
                    let kept = (sizes(space, BASE, BASE + 2 * GIANT), shown(space, BASE + 3));
                    (kept, space.inspect().nr_mappings(), refused)
                };
                let before = state(&space);
                vm.memory().plan_mishap(nth);
                let result = call(&space);
                has_struck = !vm.memory().is_mishap_planned();
                vm.memory().plan_mishap(0);
                if has_struck && result.is_err() {
                    assert_eq!(result, Err(Error::NoMemory), "{name}");
                    assert_eq!(state(&space), before, "{name}, allocation {nth}");
                } else {
                    assert_eq!(result, Ok(()), "{name}, allocation {nth}");
                }
            });
            has_struck
        });
        assert!(allocations > 0, "{name} allocates");
    }
}
