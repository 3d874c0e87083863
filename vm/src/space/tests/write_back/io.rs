//! Reading and writing an object through its handle, beside its mappings.

use crate::object::PageAnswer;
use crate::space::tests::world::PAGE;
use crate::space::tests::world::disk::{Event, open, with_disk};
use crate::space::tests::world::object::{PRIVATE, SHARED, at, in_each, load, map, map_both, store};
use crate::space::*;
use crate::units::VirtAddr;

#[test]
fn what_is_written_is_mapped_and_what_is_mapped_is_read() {
    in_each(|vm, space| {
        let object = map_both(vm, &space, 4);
        assert_eq!(object.write_at(PAGE - 2, &[1, 2, 3, 4]), Ok(4));
        let mut bytes = [0; 4];
        assert_eq!(space.copy_from(VirtAddr(at(SHARED).0 + PAGE - 2), &mut bytes), Ok(4));
        assert_eq!(bytes, [1, 2, 3, 4]);
        store(&space, PRIVATE + 1, 9);
        store(&space, SHARED + 2, 7);
        let mut read = [0xee; 6];
        assert_eq!(object.read_at(PAGE - 1, &mut read[..3]), Ok(3));
        assert_eq!(object.read_at(2 * PAGE, &mut read[3..4]), Ok(1));
        assert_eq!(read[..4], [2, 3, 4, 7], "a private copy is not the object's");
        // A hole is zeros, and takes no memory.
        let before = vm.memory().check().unwrap().allocated;
        assert_eq!(object.read_at(3 * PAGE + 5, &mut read), Ok(6));
        assert_eq!((read, vm.memory().check().unwrap().allocated), ([0; 6], before));
        assert_eq!(object.read_at(4 * PAGE - 3, &mut read), Ok(3), "the end");
        assert_eq!(object.read_at(u64::MAX, &mut read), Ok(0));
    });
}

#[test]
fn writing_makes_an_object_longer_with_zeros_between() {
    in_each(|vm, space| {
        let object = map_both(vm, &space, 4);
        let _reach = object.set_len_bytes(0, |_| Some(&space)).unwrap();
        assert_eq!(object.write_at(2 * PAGE + 10, &[5; 3]), Ok(3));
        assert_eq!(object.len_bytes(), 2 * PAGE + 13);
        assert_eq!([0, 1, 2].map(|page| load(&space, SHARED + page)), [0; 3]);
        assert_eq!(space.copy_from(at(SHARED + 3), &mut [0]), Err(Error::Fault));
        let mut read = [0xee; 20];
        assert_eq!(object.read_at(2 * PAGE, &mut read), Ok(13));
        assert_eq!((read[9], read[10], read[12], read[13]), (0, 5, 5, 0xee));
        // What a program has stored beyond the end is not shown by a longer object.
        assert_eq!(space.copy_to(VirtAddr(at(SHARED + 2).0 + 100), &[9]), Ok(1));
        assert_eq!(object.write_at(2 * PAGE + 200, &[6]), Ok(1));
        assert_eq!((object.read_at(2 * PAGE + 100, &mut read[..1]), read[0]), (Ok(1), 0));
        assert_eq!(object.write_at(0, &[]), Ok(0));
        for offset in [1 << 57, u64::MAX] {
            assert_eq!(object.write_at(offset, &[1]), Err(ObjectError::TooLong));
        }
        assert_eq!(object.write_at((1 << 57) - 1, &[1, 2]), Ok(1), "as far as an object reaches");
        assert_eq!(object.len_bytes(), 1 << 57);
    });
}

#[test]
fn a_file_is_read_where_it_is_not_in_memory_and_written_back_where_it_was_written_to() {
    with_disk(4, |vm, space, disk| {
        let file = open(vm);
        disk.put(1, 6);
        let mut byte = [0];
        assert_eq!((file.read_at(PAGE, &mut byte), byte), (Ok(1), [6]));
        map(&space, &file, (SHARED, 4), Sharing::Shared);
        assert_eq!(load(&space, SHARED + 1), 6);
        assert_eq!(disk.events(), [Event::Read(1)]);
        assert_eq!(file.write_at(2 * PAGE - 1, &[7, 8]), Ok(2));
        assert_eq!(disk.events(), [Event::Allow(1), Event::Read(2), Event::Allow(2)]);
        assert_eq!(load(&space, SHARED + 2), 8);
        let written = file.write_back(0, u64::MAX, |_| Some(&space)).unwrap();
        assert_eq!((written.pages, disk.byte(2), disk.bytes(1)[4095]), (2, 8, 7));
        // What the pager refuses ends the call: before it, and in the middle.
        disk.answer(3, &[PageAnswer::Error]);
        assert_eq!(file.read_at(3 * PAGE, &mut byte), Err(ObjectError::Io));
        disk.answer(3, &[PageAnswer::Ready, PageAnswer::Error]);
        assert_eq!(file.write_at(3 * PAGE - 1, &[1, 1]), Ok(1));
        disk.answer(9, &[PageAnswer::Error]);
        assert_eq!(file.write_at(9 * PAGE, &[1]), Err(ObjectError::Io));
        assert_eq!(file.len_bytes(), 4 * PAGE, "a write that has failed leaves the length");
    });
}
