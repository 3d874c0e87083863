//! Every public operation with a product of odd numbers: it returns, and the space stays what it was made of.

use super::world::{PAGE, boot_map, space_of, store};
use crate::machine::testing::TestMachine;
use crate::space::{AddressSpace, Advice, Fault, MapRequest, Misplaced, Place, Sharing, Vm};
use crate::units::{Access, VirtAddr, Vpn, VpnRange};
use crate::vma::{FlagAdvice, PolicyFlags, PolicyMode, PolicyRequest, VmaFlags};

type TestSpace<'v> = AddressSpace<'v, TestMachine>;

/// Addresses and lengths in bytes, and numbers of pages.
const ODD: [u64; 17] = [
    0,
    1,
    0xfff,
    0x1000,
    0x1001,
    0x1_0000,
    0x20_0000,
    0x7fff_ffff_e000,
    0x7fff_ffff_efff,
    0x7fff_ffff_f000,
    0x8000_0000_0000,
    1 << 52,
    (1 << 52) + 0x1000,
    1 << 63,
    !0xfff - 0x1000,
    !0xfff,
    u64::MAX,
];

const FLAGS: [VmaFlags; 4] = [
    VmaFlags::empty(),
    VmaFlags::READ.union(VmaFlags::WRITE),
    VmaFlags::all(),
    VmaFlags::from_bits_retain(u32::MAX),
];

fn map_and_unmap(space: &TestSpace<'_>, addr: u64, len_bytes: u64) {
    let at = VirtAddr(addr);
    for place in [Place::Hint(at), Place::Low(at), Place::FixedNoReplace(at), Place::Fixed(at)] {
        for (flags, sharing) in FLAGS.into_iter().zip([Sharing::Private, Sharing::Shared].repeat(2)) {
            let request = MapRequest {
                place,
                flags,
                sharing,
                populate: len_bytes < 1 << 20,
                ..MapRequest::anonymous(len_bytes)
            };
            let chosen = space.choose_place(&request);
            let mapped = space.map(&request);
            assert!(mapped.is_err() || mapped == chosen, "{request:?}: {mapped:?}, {chosen:?} was promised");
            if let Ok(mapped) = mapped {
                let user = space.layout().areas.user;
                assert!(user.covers(VpnRange::from_bytes(mapped, len_bytes).unwrap()), "{request:?}");
                space.unmap(mapped, len_bytes).unwrap();
            }
        }
    }
}

fn map_shared(space: &TestSpace<'_>, shared: VirtAddr, addr: u64, len_bytes: u64) {
    let place = Place::FixedNoReplace(VirtAddr(addr));
    let request = MapRequest { place, sharing: Sharing::Shared, ..MapRequest::anonymous(len_bytes) };
    for from in [shared, VirtAddr(addr)] {
        let Some((object, first)) = space.object_at(from) else { continue };
        for first in [first, 0, u64::MAX, len_bytes / PAGE] {
            if let Ok(mapped) = space.map(&request.backed_by(object.at_page(first))) {
                space.unmap(mapped, len_bytes).unwrap();
            }
        }
    }
}

fn change(space: &TestSpace<'_>, addr: VirtAddr, len_bytes: u64) {
    for flags in FLAGS {
        let _ = space.protect(addr, len_bytes, flags);
    }
    let contents = [Advice::WillNeed, Advice::Cold, Advice::Free, Advice::DontNeed];
    let populate = [Advice::PopulateRead, Advice::PopulateWrite];
    let flags = [FlagAdvice::Random, FlagAdvice::WipeOnFork, FlagAdvice::DoDump].map(Advice::Flag);
    for advice in contents.into_iter().chain(populate).chain(flags) {
        let _ = space.advise(addr, len_bytes, advice);
    }
    for nodes in [0, 1, 2, 1 << 26, 1 << 63, u64::MAX] {
        for mode in [PolicyMode::Default, PolicyMode::Preferred, PolicyMode::Bind, PolicyMode::Local] {
            for flags in [PolicyFlags::empty(), PolicyFlags::RELATIVE, PolicyFlags::from_bits_retain(!0)] {
                let request = PolicyRequest { mode, flags, nodes };
                let _ = space.set_policy(addr, len_bytes, request, Misplaced::Refuse);
                let _ = space.set_policy(addr, len_bytes, request, Misplaced::Report);
            }
        }
    }
    let _ = space.unmap(addr, len_bytes);
}

fn look(space: &TestSpace<'_>, addr: VirtAddr, len_bytes: u64) {
    let _ = space.mincore(addr, len_bytes, |_, _| ());
    space.inspect().is_any_mapped(addr, len_bytes);
    space.inspect().vma_at(addr);
    for page in [addr.vpn(), Vpn(addr.0)] {
        space.inspect().resident_frame(page);
    }
    for access in [Access::Read, Access::Write, Access::Execute] {
        let _ = space.fault(Fault { addr, access });
    }
    space.brk(addr);
    space.brk(space.layout().heap_start);
    let range = VpnRange { start: Vpn(addr.0), end: Vpn(len_bytes) };
    drop(space.write(range));
    drop(space.read(range));
    drop(space.write_two(range, VpnRange { start: range.end, end: range.start }));
}

#[test]
fn no_operation_minds_odd_numbers() {
    let machine = TestMachine::new(1500);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let before = vm.memory().check().unwrap().allocated;
    let space = space_of(&vm);
    let running = space.activate(None);
    let request = MapRequest { sharing: Sharing::Shared, ..MapRequest::anonymous(4 * PAGE) };
    for addr in ODD {
        for len_bytes in ODD {
            let private = space.map(&MapRequest::anonymous(4 * PAGE)).unwrap();
            let shared = space.map(&request).unwrap();
            store(&space, private);
            store(&space, shared);
            map_and_unmap(&space, addr, len_bytes);
            map_shared(&space, shared, addr, len_bytes);
            look(&space, VirtAddr(addr), len_bytes);
            change(&space, VirtAddr(addr), len_bytes);
            look(&space, VirtAddr(addr), len_bytes);
            let user = space.layout().areas.user;
            space.unmap(user.start.addr(), user.len_bytes()).unwrap();
            assert_eq!(space.inspect().nr_mappings(), 0);
            space.inspect().check_index().unwrap();
        }
    }
    drop(running);
    drop(space);
    vm.trim();
    assert_eq!(vm.memory().check().unwrap().allocated, before);
}
