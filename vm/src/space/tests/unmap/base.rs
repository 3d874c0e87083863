//! munmap of base pages: what is refused, and what it leaves.

use crate::space::Error;
use crate::space::tests::world::bounded::{PAGE, leaf, map, mappings, page, with_space, write};

#[test]
fn a_mapping_is_split_while_there_are_fewer_than_the_maximum() {
    with_space(3, |space| {
        map(space, 0, 3);
        space.unmap(page(1), PAGE).unwrap();
        assert_eq!(mappings(space).len(), 2, "one below the maximum may be split");
        map(space, 10, 3);
        write(space, page(11));
        let before = mappings(space);
        assert_eq!(before.len(), 3);
        assert_eq!(space.unmap(page(11), PAGE), Err(Error::NoMemory));
        assert_eq!(mappings(space), before);
        assert!(leaf(space, page(11).vpn()).is_some(), "a refused munmap leaves the page");
        space.unmap(page(10), PAGE).unwrap();
        assert_eq!(mappings(space).len(), 3, "an end may be cut off");
    });
}
