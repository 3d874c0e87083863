//! Files: an embedder's own, mapped by two programs, stored to, written back, and made shorter.
//!
//! ```text
//! cargo run --package interleaf --example files
//! ```

mod flat;

use flat::FlatMachine;
use interleaf::frame::PageFill;
use interleaf::machine::Machine;
use interleaf::object::{PageAnswer, PageContents, Pager, PagerKey};
use interleaf::space::{
    AddressSpace, Fault, FaultError, Layout, MapRequest, ObjectHandle, Path, Sharing, SpaceId, Vm, VmOptions,
    pager_conformance,
};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, PAGE_SIZE, VirtAddr};
use std::cell::RefCell;

type Space<'v> = AddressSpace<'v, FlatMachine>;
const PAGE: u64 = PAGE_SIZE as u64;

/// The disk: one file, whose key is 1. A real one begins a read or a write, answers `NotReady`, and calls
/// `Vm::page_ready` from its interrupt handler.
struct Disk {
    bytes: Shared,
}

/// One thread runs: nothing else is in the cell.
struct Shared(RefCell<Vec<u8>>);

// SAFETY: the platform has one CPU, and refuses the calls of a second thread.
unsafe impl Sync for Shared {}

impl Pager<FlatMachine> for Disk {
    fn size_bytes(&self, _: PagerKey) -> u64 {
        self.bytes.0.borrow().len() as u64
    }

    /// A page is read when a program touches it first.
    fn try_page(&self, _: PagerKey, page: u64, into: &mut PageFill<'_, FlatMachine>) -> PageAnswer {
        let bytes = self.bytes.0.borrow();
        let rest = bytes.get(page as usize * PAGE_SIZE..).filter(|rest| !rest.is_empty());
        let Some(rest) = rest else { return PageAnswer::Beyond };
        into.write(0, &rest[..rest.len().min(PAGE_SIZE)]);
        PageAnswer::Ready
    }

    /// So the library follows stores, and asks before the first one to each page.
    fn is_written_back(&self, _: PagerKey) -> bool {
        true
    }

    fn try_make_writable(&self, _: PagerKey, page: u64) -> PageAnswer {
        println!("page {page} is going to be stored to");
        PageAnswer::Ready
    }

    fn write_back(&self, _: PagerKey, page: u64, from: &PageContents<'_, '_, FlatMachine>) -> PageAnswer {
        let (mut bytes, start) = (self.bytes.0.borrow_mut(), page as usize * PAGE_SIZE);
        let end = start + from.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        from.read(0, &mut bytes[start..end]);
        println!("page {page}: {} bytes written", from.len());
        PageAnswer::Ready
    }
}

/// A platform of one CPU, and a disk with a file of three pages.
fn with_disk(test: impl FnOnce(&FlatMachine, &Disk, &Vm<'_, FlatMachine>)) {
    let disk = Disk { bytes: Shared(RefCell::new(vec![b'.'; 3 * PAGE_SIZE])) };
    let machine = FlatMachine::new(4096);
    let memory = machine.boot_map().claim(&machine).expect("it is free");
    let options = VmOptions { pager: Some(&disk), fault_around_bytes: 16 * PAGE, ..VmOptions::default() };
    test(&machine, &disk, &Vm::start(memory, options).expect("16 MiB are enough"));
}

fn main() {
    with_disk(|_, _, vm| {
        // The rules of a pager, tested on a file that is its own.
        let report = pager_conformance::run(vm, PagerKey(1));
        assert!(report.holds(), "{report}");
        println!("{report}");
    });
    with_disk(play);
}

fn play(machine: &FlatMachine, disk: &Disk, vm: &Vm<'_, FlatMachine>) {
    let programs = [(); 2].map(|()| {
        AddressSpace::new(vm, Layout::linux::<X86_64>(), Path::Speculative).expect("memory for a root table")
    });
    // How the library finds a space that maps the file; a kernel has its processes in `Spaces`.
    let find = |id: SpaceId| programs.iter().find(|space| space.id() == id);

    // open, mmap: one object for each file, however often it is mapped.
    let file = ObjectHandle::paged(vm, PagerKey(1)).expect("memory for its record");
    let shared = MapRequest { sharing: Sharing::Shared, ..MapRequest::anonymous(4 * PAGE) };
    let at = programs
        .each_ref()
        .map(|space| space.map(&shared.backed_by(file.at_page(0))).expect("an empty space has room for it"));
    assert_eq!(load(machine, &programs[0], at[0]), Ok(b'.'));

    // A store of one program is seen by the other, and by a read of the file; the disk has it later.
    store(machine, &programs[0], at[0], b'a').expect("the mapping allows it");
    let mut byte = [0];
    assert_eq!((load(machine, &programs[1], at[1]), file.read_at(0, &mut byte)), (Ok(b'a'), Ok(1)));
    assert_eq!((byte[0], disk.bytes.0.borrow()[0]), (b'a', b'.'));

    // fsync. From now on the page is clean, and the next store is asked for again.
    let mut errors = file.error_cursor();
    let written = file.sync(&mut errors, find).expect("the disk takes it");
    assert_eq!((written.pages, written.missing, disk.bytes.0.borrow()[0]), (1, 0, b'a'));
    store(machine, &programs[1], at[1], b'b').expect("the mapping allows it");

    // write, at the end: the file becomes longer, for the programs that map it, too.
    let end = VirtAddr(at[1].0 + 3 * PAGE);
    assert_eq!(load(machine, &programs[1], end), Err(FaultError::Beyond), "SIGBUS");
    disk.bytes.0.borrow_mut().resize(3 * PAGE_SIZE + 4, 0);
    assert_eq!(file.write_at(3 * PAGE, b"more"), Ok(4));
    assert_eq!(load(machine, &programs[1], end), Ok(b'm'));

    // ftruncate: every program loses the pages beyond.
    let reach = file.set_len_bytes(10, find).expect("a length that an object has");
    println!("{reach:?}");
    assert_eq!(load(machine, &programs[1], end), Err(FaultError::Beyond));
    disk.bytes.0.borrow_mut().truncate(10);
    let written = file.sync(&mut errors, find).expect("the disk takes it");
    assert_eq!((written.pages, disk.bytes.0.borrow().as_slice()), (1, b"b.........".as_slice()));
    drop((programs, file));
    vm.trim();
    println!("{:?}", vm.memory().check().expect("frames add up"));
}

#[test]
fn runs() {
    main();
}

/// Stores a byte, as a program: the entry must allow it.
fn store(machine: &FlatMachine, space: &Space<'_>, addr: VirtAddr, byte: u8) -> Result<(), FaultError> {
    space.fault(Fault { addr, access: Access::Write })?;
    let (frame, _) = space.inspect().resident_frame(addr.vpn()).expect("just made present");
    // SAFETY: one thread runs, and the entry of the page allows it to write the frame.
    unsafe { machine.window(frame.addr()).write(byte) };
    Ok(())
}

/// Loads a byte.
fn load(machine: &FlatMachine, space: &Space<'_>, addr: VirtAddr) -> Result<u8, FaultError> {
    space.fault(Fault { addr, access: Access::Read })?;
    let (frame, _) = space.inspect().resident_frame(addr.vpn()).expect("just made present");
    // SAFETY: one thread runs, and the frame is memory that it has made present.
    Ok(unsafe { machine.window(frame.addr()).read() })
}
