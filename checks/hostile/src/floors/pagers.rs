//! Pagers of objects, and files.

use crate::odd::NUMBERS;
use crate::world::{Lab, must_work, on_cpu};
use crate::{call, called};
use interleaf::frame::PageFill;
use interleaf::object::{PageAnswer, PageContents, Pager, PagerKey, Seals};
use interleaf::space::pager_conformance::{self, PagerReport, PagerRule};
use interleaf::space::{
    AddressSpace, Advice, Fault, MapRequest, ObjectHandle, Sharing, Spaces, SyncMode, Vm, VmOptions,
};
use interleaf::units::{Access, VirtAddr};
use interleaf_lab::machine::soft::boot_map;

/// The ways of msync.
const MODES: [SyncMode; 4] =
    [SyncMode::Async, SyncMode::Sync, SyncMode::Invalidate, SyncMode::SyncInvalidate];

type Space<'v> = AddressSpace<'v, Lab>;

/// Calls all that is about pagers, on a machine of its own.
pub fn run(new_space: impl for<'f> Fn(&'f Vm<'f, Lab>) -> Space<'f>) {
    on_cpu(|machine| paged(machine, &new_space));
    on_cpu(|machine| files(machine, &new_space));
}

/// A pager that answers whatever it likes, and panics; it says of no page that it is not ready, as a fault
/// sleeps then until it is.
struct Careless;

impl Pager<Lab> for Careless {
    fn try_page(&self, _object: PagerKey, page: u64, into: &mut PageFill<'_, Lab>) -> PageAnswer {
        crate::call::note("Pager::try_page");
        match page {
            0 => PageAnswer::Ready,
            1 => {
                called!(PageFill::write => into.write(4095, &[1]));
                PageAnswer::Error
            }
            2 => {
                into.write(usize::MAX, &[1]);
                PageAnswer::Ready
            }
            3 => panic!("a pager that panics"),
            4 => PageAnswer::Ready,
            _ => PageAnswer::Beyond,
        }
    }
    fn size_bytes(&self, object: PagerKey) -> u64 {
        crate::call::note("Pager::size_bytes");
        NUMBERS[object.0 as usize % NUMBERS.len()]
    }
    fn is_written_back(&self, object: PagerKey) -> bool {
        crate::call::note("Pager::is_written_back");
        object.0 % 2 == 1
    }
    fn try_make_writable(&self, _object: PagerKey, page: u64) -> PageAnswer {
        crate::call::note("Pager::try_make_writable");
        match page {
            0 | 4 => PageAnswer::Ready,
            2 => panic!("a pager that panics"),
            _ => PageAnswer::Beyond,
        }
    }
    fn write_back(&self, _object: PagerKey, page: u64, from: &PageContents<'_, '_, Lab>) -> PageAnswer {
        crate::call::note("Pager::write_back");
        let len = call!(PageContents::len, from).expect("it panics nowhere");
        assert_eq!(call!(PageContents::is_empty, from), Some(len == 0));
        let mut bytes = [0; 8192];
        called!(PageContents::read => from.read(0, &mut bytes));
        called!(PageContents::read => from.read(usize::MAX, &mut bytes[..1]));
        from.read(4095, &mut bytes[..1]);
        if page == 0 { PageAnswer::Ready } else { panic!("a pager that panics") }
    }
}

/// Files of such a pager: lengths, holes, reads, writes and syncs of all numbers, by finders of nothing
/// or another space.
fn files(machine: &Lab, new_space: impl for<'f> Fn(&'f Vm<'f, Lab>) -> Space<'f>) {
    let memory = boot_map(machine).claim(machine).expect("memory");
    let options = VmOptions { pager: Some(&Careless), fault_around_bytes: 16 * 4096, ..VmOptions::default() };
    let vm = Vm::start(memory, options).expect("memory");
    let (space, other, spaces) = (new_space(&vm), new_space(&vm), Spaces::new(&vm).expect("memory"));
    for key in 18..24 {
        let file = ObjectHandle::paged(&vm, PagerKey(key)).expect("memory");
        let mut cursor = call!(ObjectHandle::error_cursor, &file).expect("it panics nowhere");
        for (nth, number) in NUMBERS.into_iter().enumerate() {
            let request = MapRequest { sharing: Sharing::Shared, ..MapRequest::anonymous(6 * 4096) };
            let base = space.map(&request.backed_by(file.at_page(0))).expect("room");
            for page in [0, 4, 1] {
                let addr = VirtAddr(base.0 + page * 4096);
                let _ = called!(AddressSpace::fault => space.fault(Fault { addr, access: Access::Write }));
            }
            let find =
                |id| [Some(&space), Some(&other), None][nth % 3].filter(|_| space.id() == id || nth % 2 == 0);
            let _ = called!(ObjectHandle::is_dirty => file.is_dirty(number));
            let _ = called!(ObjectHandle::frame_of => file.frame_of(number));
            let _ = called!(ObjectHandle::write_at => file.write_at(number, &[1; 5]));
            let _ = called!(ObjectHandle::read_at => file.read_at(number, &mut [0; 5000]));
            for length in NUMBERS {
                let _ = called!(ObjectHandle::write_back => file.write_back(number, length, find));
                let _ = called!(ObjectHandle::punch_hole => file.punch_hole(number, length, find));
                let _ = called!(Spaces::punch_hole => spaces.punch_hole(&file, number, length));
                let addr = VirtAddr(number);
                for mode in MODES {
                    let _ = called!(AddressSpace::sync => space.sync(addr, length, mode, find));
                }
                let _ = called!(AddressSpace::remove => space.remove(addr, length, find));
            }
            let seals = Seals::from_bits_retain(number as u32);
            let _ = called!(AddressSpace::advise => space.advise(base, number, Advice::WillNeed));
            if nth % 3 == 0 {
                let _ = called!(ObjectHandle::add_seals => file.add_seals(seals, find));
                let _ = called!(ObjectHandle::seals => file.seals());
            }
            let _ = called!(ObjectHandle::sync => file.sync(&mut cursor, find));
            let _ = called!(ObjectHandle::set_len_bytes => file.set_len_bytes(number, find));
            let _ = called!(Spaces::set_object_len_bytes => spaces.set_object_len_bytes(&file, number));
            call!(AddressSpace::drop_beyond_ends, &space);
            space.unmap(base, 6 * 4096).expect("it is mapped");
        }
    }
    for key in 0..NUMBERS.len() as u64 {
        let _ = called!(pager_conformance::run => pager_conformance::run(&vm, PagerKey(key)));
    }
    let report = PagerReport::default();
    assert_eq!(call!(PagerReport::holds, &report), Some(true));
    for rule in PagerRule::ALL {
        assert!(call!(PagerReport::verdict, &report, rule).is_some());
        assert!(call!(PagerRule::sentence, rule).is_some());
    }
    drop((space, other));
    must_work(machine, &vm);
}

/// Objects whose pages such a pager fills, of odd names, in private and shared mappings.
fn paged(machine: &Lab, new_space: impl for<'f> Fn(&'f Vm<'f, Lab>) -> Space<'f>) {
    let memory = boot_map(machine).claim(machine).expect("memory");
    let vm = Vm::start(memory, VmOptions { pager: Some(&Careless), ..VmOptions::default() }).expect("memory");
    let space = new_space(&vm);
    for key in [0, 1, u64::MAX] {
        let Some(Ok(object)) = call!(ObjectHandle::paged, &vm, PagerKey(key)) else {
            panic!("a pager is there")
        };
        for sharing in [Sharing::Private, Sharing::Shared] {
            for first in [0, 1 << 45, u64::MAX - 6] {
                let request = MapRequest { sharing, ..MapRequest::anonymous(6 * 4096) };
                let base = space.map(&request.backed_by(object.at_page(first))).expect("room");
                for page in 0..6 {
                    let addr = VirtAddr(base.0 + page * 4096);
                    for access in [Access::Read, Access::Write] {
                        let _ = called!(AddressSpace::fault => space.fault(Fault { addr, access }));
                    }
                    let _ = called!(AddressSpace::copy_to_forced => space.copy_to_forced(addr, &[1]));
                    call!(Vm::page_ready, &vm, PagerKey(key), first + page);
                }
                space.unmap(base, 6 * 4096).expect("it is mapped");
            }
        }
    }
    drop(space);
    must_work(machine, &vm);
}
