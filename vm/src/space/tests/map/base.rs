//! mmap of base pages: what is refused, and what it leaves.

use crate::machine::testing::TestFormat;
use crate::space::tests::world::bounded::{PAGE, leaf, map, page, ranges, with_layout, with_space, write};
use crate::space::{Error, Layout, MapRequest, Place, Sharing};
use crate::units::VirtAddr;
use crate::vma::VmaFlags;

#[test]
fn shared_memory_outlives_no_mapping_of_it_though_a_further_one_was_refused() {
    with_space(100, |space| {
        let request = MapRequest { sharing: Sharing::Shared, ..MapRequest::anonymous(4 * PAGE) };
        let from = space.map(&request).unwrap();
        write(space, from);
        let occupied = MapRequest { place: Place::FixedNoReplace(from), ..request };
        let (object, first) = space.object_at(from).unwrap();
        assert_eq!(space.map(&occupied.backed_by(object.at_page(first))), Err(Error::Exists));
        space.unmap(from, 4 * PAGE).unwrap();
    });
}

#[test]
fn a_refused_fixed_mapping_leaves_what_linux_leaves() {
    let few = Layout { max_commit_pages: Some(3), ..Layout::linux::<TestFormat>() };
    let fixed = |nr, sharing| MapRequest {
        place: Place::Fixed(page(nr)),
        sharing,
        ..MapRequest::anonymous(8 * PAGE)
    };
    with_layout(few, |space| {
        map(space, 0, 3);
        write(space, page(1));
        assert_eq!(space.map(&fixed(1, Sharing::Private)), Err(Error::NoMemory));
        assert_eq!(ranges(space), [0..1, 1..3], "split where it would have begun");
        assert!(leaf(space, page(1).vpn()).is_some());
        assert_eq!(space.map(&fixed(1, Sharing::Shared)), Err(Error::NoMemory));
        assert_eq!(ranges(space), std::vec![0..1], "a shared one is refused when the old is gone");
        assert!(leaf(space, page(1).vpn()).is_none());
        let beside = MapRequest { place: Place::FixedNoReplace(page(1)), ..fixed(1, Sharing::Shared) };
        assert_eq!(space.map(&beside), Err(Error::NoMemory));
        assert_eq!(ranges(space), std::vec![0..1]);
    });
}

/// What is not committed is not refused for that: memory lacks for the object, and nothing has changed.
#[test]
fn a_fixed_mapping_that_commits_nothing_leaves_all_where_memory_lacks() {
    let few = Layout { max_commit_pages: Some(3), ..Layout::linux::<TestFormat>() };
    with_layout(few, |space| {
        map(space, 0, 3);
        let (place, sharing) = (Place::Fixed(page(1)), Sharing::Shared);
        let flags = VmaFlags::READ | VmaFlags::WRITE | VmaFlags::NORESERVE;
        let request = MapRequest { place, sharing, flags, ..MapRequest::anonymous(8 * PAGE) };
        space.vm().memory().plan_mishaps_from(1);
        let refused = space.map(&request);
        space.vm().memory().plan_mishap(0);
        assert_eq!(refused, Err(Error::NoMemory));
        assert_eq!(ranges(space), std::vec![0..3]);
        space.map(&request).unwrap();
        assert_eq!(ranges(space), [0..1, 1..9]);
    });
}

/// A request is granted up to the frames of the machine, as by Linux's heuristic without swap, or as the
/// layout says. Requests are not summed.
#[test]
fn one_request_commits_the_frames_of_the_machine_at_most() {
    let usual = Layout::linux::<TestFormat>();
    with_layout(usual, |space| {
        let most = space.vm().memory().stats().managed;
        let no_memory = Err(Error::NoMemory);
        let flags = |flags, pages| MapRequest { flags, ..MapRequest::anonymous(pages * PAGE) };
        let read_write = VmaFlags::READ | VmaFlags::WRITE;
        assert_eq!(space.map(&flags(read_write, most + 1)), no_memory);
        let shared = MapRequest { sharing: Sharing::Shared, ..flags(read_write, most + 1) };
        assert_eq!(space.map(&shared), no_memory);
        let large = space.map(&flags(VmaFlags::READ, most + 2)).unwrap();
        assert_eq!(space.protect(large, (most + 1) * PAGE, read_write), Err(Error::NoMemory));
        space.protect(large, most * PAGE, read_write).unwrap();
        let unreserved = space.map(&flags(read_write | VmaFlags::NORESERVE, 1 << 30)).unwrap();
        space.protect(unreserved, PAGE << 30, VmaFlags::READ).unwrap();
        space.protect(unreserved, PAGE << 30, read_write).unwrap();
        for _ in 0..2 {
            space.map(&flags(read_write, most)).unwrap();
        }
        let heap = space.layout().heap_start;
        let end = VirtAddr(heap.0 + (most + 1) * PAGE);
        assert_eq!((space.brk(end), space.brk(VirtAddr(end.0 - PAGE)).0), (heap, end.0 - PAGE));
    });
    with_layout(Layout { max_commit_pages: Some(u64::MAX), ..usual }, |space| {
        space.map(&MapRequest::anonymous(PAGE << 30)).unwrap();
    });
}
