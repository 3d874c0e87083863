//! MADV_DONTNEED of a large range, with helpers.

use crate::space::tests::world::helpers::with_helpers;
use crate::space::tests::world::large::{
    FIRST, assert_beside_is_there, at, cleared_with_one_flush, drop_contents, left, map_all,
};
use crate::space::*;
use crate::units::Access;

#[test]
fn madv_dontneed_of_a_large_range_clears_all_of_it_with_one_flush() {
    with_helpers(1 << 14, |space| {
        map_all(space);
        cleared_with_one_flush(space, drop_contents);
        assert_beside_is_there(space);
        space.fault(Fault { addr: at(FIRST), access: Access::Write }).unwrap();
        assert_eq!(left(space), 1, "the mapping is there still");
    });
}
