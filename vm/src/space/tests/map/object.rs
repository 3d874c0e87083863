//! Private mappings of objects: commitment, and what is joined.

use crate::machine::testing::{TestFormat, TestMachine};
use crate::space::tests::world::object::{PRIVATE, RW, at, in_each, load, request, store};
use crate::space::tests::world::{PAGE, boot_map};
use crate::space::*;
use crate::vma::VmaFlags;

#[test]
fn writable_private_memory_is_committed() {
    for path in [Path::Speculative, Path::Locked] {
        let machine = TestMachine::new(1500);
        let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
        let layout = Layout { max_commit_pages: Some(4), ..Layout::linux::<TestFormat>() };
        let space = AddressSpace::new(&vm, layout, path).unwrap();
        let object = ObjectHandle::new(&vm, 8 * PAGE).unwrap();
        let try_map = |pages, flags| {
            let request = MapRequest { flags, ..request(PRIVATE, pages, Sharing::Private) };
            space.map(&request.backed_by(object.at_page(0))).map(drop)
        };
        assert_eq!(try_map(5, RW), Err(Error::NoMemory));
        assert_eq!(space.inspect().nr_mappings(), 0, "refused, and not counted as mapped");
        assert_eq!(try_map(5, RW | VmaFlags::NORESERVE), Ok(()));
        assert_eq!(try_map(5, VmaFlags::READ), Ok(()));
        assert_eq!(space.protect(at(PRIVATE), 5 * PAGE, RW), Err(Error::NoMemory));
        assert_eq!(try_map(4, RW), Ok(()), "in the place of the others, of which one page is left");
        assert_eq!(space.protect(at(PRIVATE), 4 * PAGE, VmaFlags::READ), Ok(()));
        // The one that is to lie there splits what is in its way, as in Linux.
        let before = space.inspect().nr_mappings();
        assert_eq!(try_map(9, RW), Err(Error::NoMemory));
        assert_eq!(space.inspect().nr_mappings(), before);
        let child = space.fork().unwrap();
        assert_eq!(child.inspect().nr_mappings(), before);
    }
}

/// As mappings of a file are, by place in it.
#[test]
fn neighbours_are_joined_where_they_show_the_next_page() {
    in_each(|vm, space| {
        let object = ObjectHandle::new(vm, 8 * PAGE).unwrap();
        let map_at = |page, first| {
            let request = request(PRIVATE + page, 2, Sharing::Private);
            space.map(&request.backed_by(object.at_page(first))).unwrap();
        };
        map_at(0, 0);
        map_at(2, 2);
        assert_eq!(space.inspect().nr_mappings(), 1);
        map_at(4, 5);
        assert_eq!(space.inspect().nr_mappings(), 2, "it does not show page 4");
        let shared = request(PRIVATE + 6, 1, Sharing::Shared);
        space.map(&shared.backed_by(object.at_page(7))).unwrap();
        assert_eq!(space.inspect().nr_mappings(), 3, "its stores are the object's");
        store(&space, PRIVATE, 1);
        // Cut in two, each piece shows its pages, and has the copies.
        space.unmap(at(PRIVATE + 1), PAGE).unwrap();
        assert_eq!((load(&space, PRIVATE), space.inspect().vma_at(at(PRIVATE + 2)).unwrap().offset), (1, 2));
        map_at(0, 0);
        assert_eq!(space.inspect().nr_mappings(), 3);
        assert_eq!(load(&space, PRIVATE), 0);
    });
}
