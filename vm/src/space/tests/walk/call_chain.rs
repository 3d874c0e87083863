//! Call chains: of programs that keep the convention, and of those that do not.

use crate::space::tests::world::base::{TestSpace, TestVm, frame, load, map, page, store, with_space};
use crate::space::{FrameRecord, MapBacking, MapRequest, Place, Sharing};
use crate::table::NotRead;
use crate::table::testing::pfnmap_nowhere;
use crate::units::{PageSize, Pfn, PfnRange, Rights, VirtAddr};
use crate::vma::VmaFlags;
use std::vec::Vec;

/// Writes a word of a page that is there.
fn put(vm: &TestVm<'_>, space: &TestSpace<'_>, at: VirtAddr, word: u64) {
    let pfn = frame(space, VirtAddr(at.0 & !0xfff));
    vm.machine().write(pfn, at.0 as usize & 0xfff, &word.to_ne_bytes());
}

fn chain(space: &TestSpace<'_>, from: VirtAddr, record: FrameRecord, most: usize) -> Vec<u64> {
    let section = space.vm().read_in_handler();
    space.walker().call_chain(from, record, most, &section).map(|at| at.0).collect()
}

/// Three frames on two pages, of a convention.
fn stack(vm: &TestVm<'_>, space: &TestSpace<'_>, record: FrameRecord) -> VirtAddr {
    let at = |offset: u64| VirtAddr(page(0).0 + offset);
    let frames = [at(0x100), at(0xf80), at(0x1800)];
    for (nth, &pointer) in frames.iter().enumerate() {
        let caller = frames.get(nth + 1).map_or(0, |above| above.0);
        put(vm, space, VirtAddr(pointer.0.wrapping_add_signed(record.caller)), caller);
        put(
            vm,
            space,
            VirtAddr(pointer.0.wrapping_add_signed(record.return_address)),
            0x40_0000 + nth as u64,
        );
    }
    frames[0]
}

#[test]
fn a_call_chain_is_read_in_each_convention() {
    with_space(|vm, space| {
        let running = space.activate(None);
        map(&space, 0, 4);
        (0..2).for_each(|nr| store(&space, page(nr), 0));
        for record in [FrameRecord::X86_64, FrameRecord::AARCH64, FrameRecord::RISCV] {
            let from = stack(vm, &space, record);
            assert_eq!(chain(&space, from, record, 9), [0x40_0000, 0x40_0001, 0x40_0002]);
            assert_eq!(chain(&space, from, record, 2), [0x40_0000, 0x40_0001], "as many as asked for");
            assert_eq!(chain(&space, from, record, 0), [0; 0]);
        }
        drop(running);
    });
}

#[test]
fn a_chain_that_is_none_ends() {
    with_space(|vm, space| {
        let running = space.activate(None);
        map(&space, 0, 4);
        store(&space, page(0), 0);
        let at = |offset: u64| VirtAddr(page(0).0 + offset);
        // A circle, a frame that lies below, an absent page, odd addresses, the end of all addresses.
        for caller in [at(0x100).0, at(0x80).0, page(2).0, at(0x201).0, u64::MAX, 1] {
            put(vm, &space, at(0x100), caller);
            put(vm, &space, at(0x108), 77);
            assert_eq!(chain(&space, at(0x100), FrameRecord::X86_64, 1000), [77], "{caller:#x}");
        }
        put(vm, &space, at(0x108), 0);
        for from in [at(0x100), at(0xffc), page(3), VirtAddr(0), VirtAddr(u64::MAX), VirtAddr(8)] {
            assert_eq!(chain(&space, from, FrameRecord::X86_64, 1000), [0; 0], "{from:?}");
            assert_eq!(chain(&space, from, FrameRecord::RISCV, 1000), [0; 0], "{from:?}");
        }
        drop(running);
    });
}

#[test]
fn a_word_is_read_where_the_program_could_load_it_and_the_cpu_runs_the_space() {
    with_space(|vm, space| {
        map(&space, 0, 8);
        (0..4).for_each(|nr| store(&space, page(nr), 3));
        load(&space, page(4));
        space.protect(page(3), 1 << 12, VmaFlags::empty()).unwrap();
        let first = Pfn(1 << 24);
        let pfnmap = pfnmap_nowhere(PfnRange { start: first, end: first.add(1) }, Rights::all());
        let request = MapRequest {
            place: Place::Fixed(page(9)),
            sharing: Sharing::Shared,
            ..MapRequest::anonymous(1 << 12)
        };
        space
            .map(&request.backed_by(MapBacking::Pfn { frames: &pfnmap, first, largest: PageSize::Base }))
            .unwrap();
        put(vm, &space, VirtAddr(page(1).0 + 0xff8), 0x0123_4567_89ab_cdef);
        let word = |at: VirtAddr| space.walker().read_word_in_handler(at, &vm.read_in_handler());
        assert_eq!(word(page(1)), Err(NotRead::NotLoaded), "no CPU runs the space");
        let other = crate::space::tests::world::space_of(vm);
        let running = other.activate(None);
        assert_eq!(word(page(1)), Err(NotRead::NotLoaded), "this CPU runs another space");
        let running = space.activate(Some(running));
        assert_eq!(word(VirtAddr(page(1).0 + 0xff8)), Ok(0x0123_4567_89ab_cdef));
        assert_eq!(word(page(4)), Ok(0), "the zero page");
        for (at, why) in [
            (page(3), NotRead::NotAllowed),
            (page(5), NotRead::NotPresent),
            (page(9), NotRead::NotOwned),
            (VirtAddr(page(1).0 + 4), NotRead::Misaligned),
            (VirtAddr(!7), NotRead::NotPresent),
        ] {
            assert_eq!(word(at), Err(why), "{at:?}");
        }
        drop(running);
        assert_eq!(word(page(1)), Err(NotRead::NotLoaded));
    });
}
