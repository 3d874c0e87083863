//! The hugetlb pool: sizes that there are not, more pages than there is memory, and mappings at odd places
//! of odd lengths.

use crate::world::Lab;
use crate::{call, called, odd};
use interleaf::frame::{HugetlbPool, Memory};
use interleaf::space::{
    AddressSpace, Advice, Fault, FaultError, MapBacking, MapRequest, Place, RmapError, Sharing, Vm,
};
use interleaf::units::{Access, PageSize, VirtAddr};
use interleaf::vma::{Backing, HugetlbBacking, ObjectId, VmaFlags};

const SIZES: [PageSize; 3] = [PageSize::Base, PageSize::Huge, PageSize::Giant];

/// Pools of all sizes, and mappings of them. The pools are given back.
pub fn run(vm: &Vm<'_, Lab>, space: &AddressSpace<'_, Lab>) {
    for size in SIZES {
        for pages in [u64::MAX, 1, 0, 1 << 40, 2] {
            call!(Vm::resize_hugetlb, vm, size, pages);
            let pool = call!(Memory::hugetlb, vm.memory()).expect("a view");
            called!(HugetlbPool::resize => pool.resize(size, 2, None));
            call!(HugetlbPool::counts, pool, size);
        }
    }
    assert_eq!(vm.memory().hugetlb().counts(PageSize::Huge).total, 2, "there is memory for two");
    let sound = MapRequest::anonymous(2 << 20);
    let base = space.map(&sound.backed_by(MapBacking::Hugetlb(PageSize::Huge))).expect("room, and a page");
    let flags = [sound.flags, sound.flags | VmaFlags::NORESERVE, VmaFlags::all(), VmaFlags::empty()];
    for addr in odd::virt_addrs().chain([base, VirtAddr(base.0 + 4096), VirtAddr(base.0 + (2 << 20))]) {
        for len_bytes in [0, 4096, 2 << 20, 5 << 20, 1 << 30, u64::MAX] {
            for place in
                [Place::Hint(addr), Place::Fixed(addr), Place::FixedNoReplace(addr), Place::Low(addr)]
            {
                for (size, flags) in SIZES.into_iter().zip(flags).chain([(PageSize::Huge, flags[3])]) {
                    let backing = MapBacking::Hugetlb(size);
                    let request = MapRequest { backing, place, len_bytes, flags, ..sound };
                    call!(AddressSpace::map, space, &request);
                    let shared = MapRequest { sharing: Sharing::Shared, ..request };
                    call!(AddressSpace::map, space, &shared);
                }
            }
            for object in [0, 1, (1 << 56) - 1, u64::MAX].map(ObjectId::new) {
                let hugetlb = HugetlbBacking { size: PageSize::Giant, reserves: true, object };
                for backing in [Backing::Hugetlb(hugetlb), object.map_or(Backing::Anonymous, Backing::Object)]
                {
                    call!(Vm::shared_hugetlb, vm, backing);
                }
            }
            let _ = space.advise(addr, len_bytes, Advice::DontNeed);
            let _ = space.fault(Fault { addr, access: Access::Write });
            let _ = space.unmap(addr, len_bytes);
        }
    }
    let unmap_all = || space.unmap(VirtAddr(0x1000), (1 << 47) - 0x3000).expect("all of it");
    unmap_all();
    taken_back(vm, space);
    unmap_all();
    for size in SIZES {
        vm.resize_hugetlb(size, 0);
        let counts = vm.memory().hugetlb().counts(size);
        assert_eq!((counts.total, counts.reserved), (0, 0), "{size:?}");
    }
}

/// A page that a child shares is taken back by the child, with finders that find nothing, the wrong space, or
/// that fork and unmap meanwhile.
fn taken_back<'v>(vm: &Vm<'v, Lab>, space: &AddressSpace<'v, Lab>) {
    for size in SIZES {
        vm.resize_hugetlb(size, 0);
    }
    assert_eq!(vm.resize_hugetlb(PageSize::Huge, 2).total, 2, "there is memory for two");
    let request = MapRequest::anonymous(4096);
    let base = space.map(&request.backed_by(MapBacking::Hugetlb(PageSize::Huge))).expect("room, and a page");
    let (store, addr) = (Access::Write, VirtAddr(base.0 + 4096));
    space.fault(Fault { addr, access: store }).expect("it was set aside");
    let rest = space.map(&request.backed_by(MapBacking::Hugetlb(PageSize::Huge))).expect("another page");
    let child = space.fork().expect("memory");
    assert_eq!(space.fault(Fault { addr, access: store }), Err(FaultError::HugetlbEmpty));
    let nobody = |_| None::<&AddressSpace<'v, Lab>>;
    for addr in odd::virt_addrs() {
        called!(AddressSpace::unmap_hugetlb_sharers => space.unmap_hugetlb_sharers(addr, nobody));
    }
    assert_eq!(child.unmap_hugetlb_sharers(addr, |_| Some(space)), Ok(false));
    assert_eq!(space.unmap_hugetlb_sharers(addr, nobody), Err(RmapError::SpaceMissing));
    assert_eq!(space.unmap_hugetlb_sharers(addr, |_| Some(&child)), Err(RmapError::SpaceMissing));
    let disturbing = |id| {
        drop(child.fork());
        let _ = child.unmap(rest, 2 << 20);
        [space, &child].into_iter().find(|space| space.id() == id)
    };
    assert_eq!(space.unmap_hugetlb_sharers(addr, disturbing), Ok(true));
    space.fault(Fault { addr, access: store }).expect("it is this space's alone");
    assert_eq!(child.fault(Fault { addr, access: Access::Read }), Err(FaultError::HugetlbEmpty));
    vm.memory().check().expect("all frames add up");
}
