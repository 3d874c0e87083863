//! PFN mappings: at odd places, of odd sizes, and with rights that their frames do not allow.

use crate::world::Lab;
use crate::{call, called, odd};
use interleaf::machine::{CacheType, Entry};
use interleaf::space::{AddressSpace, MapBacking, MapRequest, Place, Sharing};
use interleaf::table::{LeafBits, walk};
use interleaf::units::{Level, PageSize, Pfn, Rights, VirtAddr};
use interleaf::vma::VmaFlags;

/// PFN-mapped frames, at odd pages, of odd sizes, and more than there are.
pub fn run(machine: &Lab, space: &AddressSpace<'_, Lab>) {
    let pages = 3 * 512 + 5;
    let pfnmap = machine.frames_of_no_memory(pages).expect("frame numbers");
    let first = pfnmap.frames().start;
    let request = MapRequest { sharing: Sharing::Shared, ..MapRequest::anonymous(pages * 4096) };
    let base = space
        .map(&request.backed_by(MapBacking::Pfn { frames: &pfnmap, first, largest: PageSize::Huge }))
        .expect("room");
    raise(space, base);
    for frame in [first, first.add(7), pfnmap.frames().end, Pfn(0), Pfn(u64::MAX)] {
        for len_bytes in [0, 4096, pages * 4096, u64::MAX] {
            for addr in odd::virt_addrs().chain([base, VirtAddr(base.0 + 5 * 4096)]) {
                for place in
                    [Place::Hint(addr), Place::Fixed(addr), Place::FixedNoReplace(addr), Place::Low(addr)]
                {
                    for largest in [PageSize::Base, PageSize::Huge, PageSize::Giant] {
                        let backing = MapBacking::Pfn { frames: &pfnmap, first: frame, largest };
                        let request = MapRequest { backing, len_bytes, place, ..request };
                        let _ = call!(AddressSpace::map, space, &request);
                    }
                }
            }
        }
    }
    let _ = space.unmap(VirtAddr(base.0 + 4096), 600 * 4096);
    let _ = space.protect(VirtAddr(base.0 + 601 * 4096), 4096, VmaFlags::READ);
    space.unmap(VirtAddr(0x1000), (1 << 47) - 0x3000).expect("all of it");
}

/// Tries to give a leaf of a PFN mapping rights that its frames do not allow, behind the space's back.
fn raise(space: &AddressSpace<'_, Lab>, base: VirtAddr) {
    let reading = space.vm().read();
    for page in [base.vpn(), base.vpn().add(3 * 512 + 4)] {
        let found = walk(space.inspect().page_table(), page, Level::Pte, &reading);
        let mut locked = found.table.lock().expect("it is attached");
        let mut all = LeafBits::new(Rights::all());
        all.cache = CacheType::Device;
        called!(LockedTable::adjust => locked.adjust(found.slot, |_| Some(all)));
        let Entry::Leaf(leaf) = locked.entry(found.slot) else { panic!("a leaf of a PFN mapping") };
        let is_as_mapped = !leaf.rights.contains(Rights::EXECUTE) && leaf.cache == CacheType::WriteBack;
        assert!(is_as_mapped, "a leaf of a PFN mapping was raised to {leaf:?}");
    }
}
