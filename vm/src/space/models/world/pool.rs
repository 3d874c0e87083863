//! Mappings of the hugetlb pool.

use super::*;
use crate::frame::HugetlbCounts;
use crate::units::PageSize;
use crate::vma::{HugePolicy, VmaFlags};

pub(in crate::space) const SIZE: PageSize = PageSize::Huge;

/// Maps a page of the pool at the start.
pub(in crate::space) fn map_hugetlb(space: &TestSpace, sharing: Sharing, more: VmaFlags) {
    let one = MapRequest::anonymous(TABLE * PAGE);
    let request = MapRequest { place: Place::Fixed(START.addr()), sharing, flags: one.flags | more, ..one };
    space.map(&request.backed_by(MapBacking::Hugetlb(SIZE))).unwrap();
}

/// The counts of a pool whose pages are all free.
pub(in crate::space) fn all_free(pages: u64) -> HugetlbCounts {
    HugetlbCounts { total: pages, free: pages, reserved: 0, surplus: 0 }
}

/// Plays a model with a pool of one page, which is set aside. Afterwards it is free, and given back.
pub(in crate::space) fn explore_pool(before: fn(&TestSpace), cpus: [Program; 2]) -> [usize; 2] {
    let after = |space: &TestSpace| {
        space.vm().memory().check().unwrap();
        unmap(space, START, TABLE);
        assert_eq!(space.vm().memory().hugetlb().counts(SIZE), all_free(1));
        space.vm().resize_hugetlb(SIZE, 0);
    };
    explore_pair_on(Pair { before, cpus, after }, 3 * TABLE, HugePolicy::Never, 2)
}
