//! Numbers are Linux's, and have its meaning.

use crate::{Errno, MapFlags, Prot, advice, check_mincore, map_request, number, policy};
use interleaf::space::{Advice, Error, Place, Sharing};
use interleaf::units::{NodeId, VirtAddr};
use interleaf::vma::{Policy, VmaFlags};

#[test]
fn modes_of_mbind_are_linuxs_and_each_takes_its_nodes() {
    assert_eq!([policy(0, 0), policy(4, 0), policy(1, 0)], [Some(Policy::LOCAL); 3]);
    assert_eq!([policy(0, 1), policy(4, 1), policy(2, 0), policy(3, 0), policy(7, 1)], [None; 5]);
    assert_eq!(policy(1, 0b110), Policy::preferred(NodeId(1)));
    assert_eq!((policy(2, 3), policy(3, 3)), (Policy::bind(3), Policy::interleave(3)));
}

#[test]
fn errors_of_the_library_have_linuxs_numbers() {
    let errors = [
        (Error::NotPermitted, 1),
        (Error::Again, 11),
        (Error::NoMemory, 12),
        (Error::Access, 13),
        (Error::Fault, 14),
        (Error::Exists, 17),
        (Error::Invalid, 22),
    ];
    assert!(errors.iter().all(|&(error, number)| Errno::from(error).0 == number));
    assert_eq!(Errno::ENOMEM.as_return_value(), -12);
    assert_eq!(Errno::EBADF.name(), Some("EBADF"));
    assert_eq!(Errno(99).name(), None);
}

#[test]
fn flags_and_numbers_are_those_of_the_headers() {
    assert_eq!((Prot::EXEC.bits(), Prot::GROWSUP.bits()), (4, 0x200_0000));
    assert_eq!((MapFlags::FIXED_NOREPLACE.bits(), MapFlags::STACK.bits()), (0x10_0000, 0x2_0000));
    assert_eq!((number::MMAP, number::CLONE3, number::MSEAL), (9, 435, 462));
}

#[test]
fn advice_that_the_library_lacks_is_unknown() {
    assert_eq!(advice::advice(advice::DONTNEED), Some(Advice::DontNeed));
    assert!([5, 9, 12, 13, 21, 24, 25, -1].iter().all(|&number| advice::advice(number).is_none()));
    assert!(advice::NAMES.iter().all(|&(number, _)| advice::advice(number).is_some()));
}

#[test]
fn the_flags_of_mmap_decide_place_sharing_and_attributes() {
    let flags = MapFlags::FIXED | MapFlags::FIXED_NOREPLACE | MapFlags::SHARED | MapFlags::STACK;
    let (request, has_type) = map_request(0x5000, 7, 3, flags.bits());
    assert_eq!(request.place, Place::FixedNoReplace(VirtAddr(0x5000)));
    assert!(has_type && request.sharing == Sharing::Shared && !request.populate);
    assert_eq!(request.flags, VmaFlags::READ | VmaFlags::WRITE | VmaFlags::NO_HUGE_PAGE);
    assert!(!map_request(0, 1, 0, MapFlags::TYPE.bits()).1);
}

#[test]
fn mincore_looks_at_alignment_then_the_range_then_the_buffer() {
    let end = 0x10_0000;
    assert_eq!(check_mincore(1, u64::MAX, u64::MAX, end), Err(Errno::EINVAL));
    assert_eq!(check_mincore(0x1000, u64::MAX, u64::MAX, end), Err(Errno::ENOMEM));
    assert_eq!(check_mincore(0x1000, 0x1001, end - 1, end), Err(Errno::EFAULT));
    assert_eq!(check_mincore(0x1000, 0x1001, end - 2, end), Ok(()));
}
