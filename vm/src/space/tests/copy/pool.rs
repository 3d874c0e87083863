//! Copies into the hugetlb pool.

use crate::space::Error;
use crate::space::tests::world::pool::{BYTES, RW, at, map, with_pool};
use crate::vma::VmaFlags;

#[test]
fn a_debugger_writes_only_what_the_program_may() {
    with_pool(1, |_, space| {
        map(&space, 0, 1);
        space.protect(at(0), BYTES, VmaFlags::READ).unwrap();
        assert_eq!(space.copy_to_forced(at(0), &[1]), Err(Error::Fault));
        space.protect(at(0), BYTES, RW).unwrap();
        assert_eq!(space.copy_to_forced(at(0), &[1]), Ok(1));
    });
}
