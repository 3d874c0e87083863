//! Numbers are Linux's, and have its meaning.

use crate::{
    Errno, MapFlags, Prot, advice, call_name, check_mincore, map_request, misplaced, number, policy,
    read_nodes,
};
use interleaf::space::{Advice, Error, Misplaced, ObjectError, Place, Sharing};
use interleaf::units::VirtAddr;
use interleaf::vma::{PolicyFlags, PolicyMode, VmaFlags};

#[test]
fn modes_of_mbind_are_linuxs() {
    let modes = [0, 1, 2, 3, 4, 5, 6].map(|mode| policy(mode).unwrap().mode);
    use PolicyMode::*;
    assert_eq!(modes, [Default, Preferred, Bind, Interleave, Local, PreferredMany, WeightedInterleave]);
    let (fixed, relative, balancing) = (0x8000, 0x4000, 0x2000);
    assert_eq!(policy(2 | fixed).unwrap().flags, PolicyFlags::STATIC);
    assert_eq!(policy(3 | relative).unwrap().flags, PolicyFlags::RELATIVE);
    assert_eq!(policy(5 | balancing | fixed).unwrap().flags, PolicyFlags::BALANCING | PolicyFlags::STATIC);
    for mode in [7, 2 | fixed | relative, balancing, 3 | balancing, 0x1002, 2 | 1 << 16, u32::MAX] {
        assert_eq!(policy(mode), Err(Errno::EINVAL), "{mode:#x}");
    }
}

#[test]
fn flags_of_mbind_are_linuxs() {
    let (invalid, not_permitted) = (Err(Errno::EINVAL), Err(Errno::EPERM));
    let kept = [0, 2].map(misplaced);
    assert_eq!(kept, [Ok(Misplaced::Keep); 2]);
    assert_eq!([1, 3].map(misplaced), [Ok(Misplaced::Refuse), Ok(Misplaced::Report)]);
    assert_eq!([4, 7].map(misplaced), [not_permitted; 2]);
    assert_eq!([8, 12, 16, 1 << 31].map(misplaced), [invalid; 4]);
}

/// As [`read_nodes`] reads a mask of these words at address 4096.
fn nodes_of(words: &[u64], max_node: u64) -> Result<u64, Errno> {
    let word_at = |at: u64| words.get((at - 4096) as usize / 8).copied().ok_or(Errno::EFAULT);
    read_nodes(4096, max_node, word_at)
}

#[test]
fn masks_of_nodes_are_read_as_linux_reads_them() {
    assert_eq!([0, 1, 2, 64, 65].map(|max_node| nodes_of(&[1], max_node)), {
        [Err(Errno::EINVAL), Ok(0), Ok(1), Ok(1), Ok(1)]
    });
    assert_eq!(nodes_of(&[u64::MAX], 9), Ok(0xff));
    assert_eq!(nodes_of(&[1], 66), Err(Errno::EFAULT), "the second word cannot be read");
    assert_eq!(nodes_of(&[1, 2], 129), Ok(1 << 63 | 1), "a node that no mapping can name");
    let mut long = [0; 512];
    long[0] = 1;
    assert_eq!(nodes_of(&long, 32_769), Ok(1));
    assert_eq!(nodes_of(&long, 32_770), Err(Errno::EINVAL));
    long[16] = 1;
    assert_eq!(nodes_of(&long, 32_769), Err(Errno::EINVAL), "node 1024");
    assert_eq!(nodes_of(&long, 1025), Ok(1));
    assert_eq!(nodes_of(&[], u64::MAX), Err(Errno::EINVAL));
    assert_eq!(read_nodes(0, u64::MAX, |_| Err(Errno::EFAULT)), Ok(0), "no mask is no node");
}

#[test]
fn errors_of_the_library_have_linuxs_numbers() {
    let errors = [
        (Error::NotPermitted, 1),
        (Error::Misplaced, 5),
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
    assert_eq!((advice::COLLAPSE, advice::advice(25)), (25, Some(Advice::Collapse)));
    assert!([5, 9, 12, 13, 21, 26, -1].iter().all(|&number| advice::advice(number).is_none()));
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
    let populates = |flags: MapFlags| map_request(0, 1, 3, flags.bits()).0.populate;
    assert!(populates(MapFlags::POPULATE) && !populates(MapFlags::POPULATE | MapFlags::NONBLOCK));
}

#[test]
fn mincore_looks_at_alignment_then_the_range_then_the_buffer() {
    let end = 0x10_0000;
    assert_eq!(check_mincore(1, u64::MAX, u64::MAX, end), Err(Errno::EINVAL));
    assert_eq!(check_mincore(0x1000, u64::MAX, u64::MAX, end), Err(Errno::ENOMEM));
    assert_eq!(check_mincore(0x1000, 0x1001, end - 1, end), Err(Errno::EFAULT));
    assert_eq!(check_mincore(0x1000, 0x1001, end - 2, end), Ok(()));
}

#[test]
fn every_call_has_its_name() {
    assert_eq!(
        [0, 9, 57, 469].map(call_name),
        [Some("read"), Some("mmap"), Some("fork"), Some("file_setattr")]
    );
    assert_eq!(call_name(number::MSEAL), Some("mseal"));
    assert_eq!([337, 512, 1 << 32 | 9, u64::MAX].map(call_name), [None; 4]);
}

#[test]
fn locked_memory_and_pages_that_cannot_be_written_have_errors_of_their_own() {
    let of_calls = [Error::Busy, Error::Io, Error::Misplaced, Error::Access].map(Errno::from);
    assert_eq!(of_calls, [Errno::EBUSY, Errno::EIO, Errno::EIO, Errno::EACCES]);
    let of_objects = [ObjectError::NoMemory, ObjectError::TooLong, ObjectError::Io, ObjectError::Stalled];
    let due = [Errno::ENOMEM, Errno::EFBIG, Errno::EIO, Errno::EAGAIN];
    assert_eq!(of_objects.map(Errno::from), due);
}
