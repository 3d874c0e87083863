//! The check of a list of mappings finds each flaw.

use crate::units::{Vpn, VpnRange};
use crate::vma::{AnonId, Backing, Flaw, ObjectId, VmaAttributes, VmaFlags, check};

#[test]
fn each_flaw_is_found() {
    let pages = |start, end| VpnRange::new(Vpn(start), Vpn(end));
    let flags = VmaFlags::READ | VmaFlags::MAY_ACCESS;
    let good = VmaAttributes::anonymous(pages(4, 8), flags);
    assert_eq!(check([good, good.moved_to(pages(8, 9))]), Ok(()));
    let bad = |attributes: VmaAttributes| check([attributes]).unwrap_err();
    let empty = VmaAttributes::anonymous(pages(4, 4), flags);
    assert_eq!(bad(empty), Flaw::Empty(empty));
    assert_eq!(check([good, good.over(pages(7, 9))]), Err(Flaw::Overlap(good, good.over(pages(7, 9)))));
    let shared = good.with_flags(flags | VmaFlags::SHARED);
    assert_eq!(bad(shared), Flaw::SharedWithoutObject(shared));
    let object = Backing::Object(ObjectId::new(1).unwrap());
    let copied = VmaAttributes { backing: object.into(), anon: AnonId::new(1), ..shared };
    assert_eq!(bad(copied), Flaw::SharedWithoutObject(copied));
    let forbidden = good.with_flags(VmaFlags::WRITE | VmaFlags::MAY_READ);
    assert_eq!(bad(forbidden), Flaw::Forbidden(forbidden));
    let counted = good.with_flags(flags | VmaFlags::ACCOUNT | VmaFlags::NORESERVE);
    assert_eq!(bad(counted), Flaw::CountedInVain(counted));
    let displaced = VmaAttributes { offset: 5, ..good };
    assert_eq!(check([displaced]), Ok(()), "as mremap leaves a mapping that had moved");
    assert_eq!(check([VmaAttributes { anon: AnonId::new(1), ..displaced }]), Ok(()));
}
