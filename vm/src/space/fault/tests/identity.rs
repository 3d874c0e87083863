//! Identities of private copies: which mappings may be merged once they have some.

use super::install::with_space;
use crate::space::{Fault, MapRequest};
use crate::units::{Access, PAGE_SIZE};
use crate::vma::VmaFlags;

const PAGE: u64 = PAGE_SIZE as u64;
const READ_WRITE: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE);

/// As Linux's `find_mergeable_anon_vma`: rights do not count, since mprotect may make them alike.
#[test]
fn a_first_copy_takes_the_identity_of_a_neighbour_with_other_rights() {
    with_space(|space| {
        let start = space.map(&MapRequest::anonymous(3 * PAGE)).unwrap().vpn();
        space.protect(start.add(1).addr(), PAGE, READ_WRITE | VmaFlags::EXECUTE).unwrap();
        for page in [start, start.add(1), start.add(2)] {
            space.fault(Fault { addr: page.addr(), access: Access::Write }).unwrap();
        }
        assert_eq!(space.inspect().nr_mappings(), 3);
        space.protect(start.add(1).addr(), PAGE, READ_WRITE).unwrap();
        assert_eq!(space.inspect().nr_mappings(), 1, "all have one identity");
    });
}
