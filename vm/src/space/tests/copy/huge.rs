//! Copies into and out of huge pages.

use crate::space::Error;
use crate::space::tests::world::PAGE;
use crate::space::tests::world::huge::{HUGE, THP, at, byte_of, counted, filled, map, peek, with_space};
use crate::space::tests::world::zero::{is_zero, with_zero};
use crate::vma::VmaFlags;

const RW: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE);

#[test]
fn others_read_a_huge_page_as_it_is_and_split_it_to_write() {
    with_space(|vm, space| {
        filled(&space);
        let mut bytes = [0; 3 * 4096];
        assert_eq!(space.copy_from(at(HUGE - 2), &mut bytes), Ok(bytes.len()));
        let read: [u8; 3] = core::array::from_fn(|nth| bytes[nth * 4096]);
        assert_eq!(read, [HUGE - 2, HUGE - 1, HUGE].map(byte_of));
        assert_eq!(counted(vm, THP), [2, 0, 0, 2]);
        space.copy_to(at(3), &[55]).unwrap();
        assert_eq!((peek(&space, 3), counted(vm, THP)), (Some(55), [2, 0, 1, 1]));
        space.protect(at(HUGE), HUGE * PAGE, VmaFlags::empty()).unwrap();
        assert_eq!(space.copy_from(at(HUGE), &mut bytes[..1]), Err(Error::Fault));
        space.copy_to_forced(at(HUGE + 1), &[66]).unwrap();
        assert_eq!(peek(&space, HUGE + 1), Some(66));
        space.protect(at(HUGE), HUGE * PAGE, RW).unwrap();
        assert_eq!(space.copy_from(at(HUGE + 1), &mut bytes[..1]), Ok(1));
        assert_eq!(bytes[0], 66);
    });
}

#[test]
fn another_process_reads_zeros_through_it_and_writes_past_it() {
    with_zero(|_, space| {
        map(&space, 0, HUGE);
        let mut bytes = [1; 16];
        assert_eq!((space.copy_from(at(9), &mut bytes), bytes), (Ok(16), [0; 16]));
        assert!(is_zero(&space, 9), "a load like any other");
        assert_eq!((space.copy_from(at(9), &mut bytes), is_zero(&space, 9)), (Ok(16), true));
        space.protect(at(0), HUGE * PAGE, VmaFlags::READ).unwrap();
        assert_eq!(space.copy_to_forced(at(10), b"breakpoint"), Ok(10));
        assert_eq!((peek(&space, 10), peek(&space, 9)), (Some(b'b'), Some(0)));
    });
}
