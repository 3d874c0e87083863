//! Walkers: ranges that are none, sections of another system, sections that nest and end in any order, and
//! visitors that panic or walk themselves.

use crate::odd;
use crate::world::{Heap, Lab};
use crate::{call, called};
use interleaf::space::{AddressSpace, FrameRecord, Inspect, MapRequest, Vm, Walker};
use interleaf::sync::Rcu;
use interleaf::table::{self, Mapper, NoteUse, Resident};
use interleaf::units::{Access, Pfn, VirtAddr, Vpn, VpnRange};
use interleaf_lab::machine::host::Host;

const ACCESSES: [Access; 3] = [Access::Read, Access::Write, Access::Execute];
const NOTES: [NoteUse; 2] = [NoteUse::Leave, NoteUse::AsHardware];

/// Calls every walker with a space that this CPU runs.
pub fn run(vm: &Vm<'_, Lab>, space: &AddressSpace<'_, Lab>) {
    let base = space.map(&MapRequest::anonymous(16 * 4096)).expect("room");
    for nr in 0..8 {
        let addr = VirtAddr(base.0 + nr * 4096);
        space.fault(interleaf::space::Fault { addr, access: Access::Write }).expect("mapped");
    }
    for addr in odd::virt_addrs().chain([base, VirtAddr(base.0 + 4095)]) {
        addresses(vm, space, addr);
    }
    for start in odd::vpns().chain([base.vpn()]) {
        for end in odd::vpns().chain([base.vpn().add(9)]) {
            ranges(vm, space, VpnRange { start, end });
        }
    }
    foreign(space, base);
    let all = VpnRange { start: base.vpn(), end: base.vpn().add(16) };
    let again = called!(Walker::scan_accessed => {
        let reading = vm.read();
        space.walker().scan_accessed(all, &reading, |pages, _| {
            space.walker().scan_accessed(pages, &reading, |_, _| ());
        })
    });
    assert_eq!(again.map(|scan| scan.leaves), Some(8));
    called!(Walker::scan_accessed_and_flush => {
        space.walker().scan_accessed_and_flush(all, |_, _| panic!("a visitor that panics"))
    });
    let resident = call!(Inspect::resident, space.inspect()).expect("it panics nowhere");
    assert_eq!((resident.base_pages, call!(Resident::pages, &resident)), (8, Some(8)));
    for start in odd::vpns() {
        for end in odd::vpns() {
            let here = call!(Inspect::resident_in, space.inspect(), VpnRange { start, end });
            assert!(here.is_some_and(|here| here.base_pages <= resident.base_pages));
        }
    }
    space.unmap(base, 16 * 4096).expect("it is mapped");
}

fn addresses(vm: &Vm<'_, Lab>, space: &AddressSpace<'_, Lab>, addr: VirtAddr) {
    let section = call!(Vm::read_in_handler, vm).expect("a section");
    let inner = vm.read_in_handler();
    call!(Walker::translate_in_handler, space.walker(), addr, &section);
    call!(Walker::read_word_in_handler, space.walker(), addr, &inner);
    drop(section);
    for (caller, return_address) in [(0, 8), (i64::MIN, i64::MAX), (-1, 0), (i64::MAX, i64::MIN)] {
        let record = FrameRecord { caller, return_address };
        for most in [0, 3, usize::MAX] {
            called!(Walker::call_chain => space.walker().call_chain(addr, record, most, &inner).count());
        }
    }
    let reading = vm.read();
    for (access, note) in ACCESSES.into_iter().flat_map(|access| NOTES.map(|note| (access, note))) {
        call!(Walker::translate_access, space.walker(), addr, access, note, &reading);
        call!(table::translate_access, space.inspect().page_table(), addr.vpn(), access, note, &reading);
    }
    call!(table::translate, space.inspect().page_table(), addr.vpn(), &reading);
}

fn ranges(vm: &Vm<'_, Lab>, space: &AddressSpace<'_, Lab>, range: VpnRange) {
    let reading = vm.read();
    called!(Walker::scan_accessed => space.walker().scan_accessed(range, &reading, |_, _| ()));
    let tree = space.inspect().page_table();
    called!(table::scan_accessed => table::scan_accessed(tree, range, &reading, |_, _| ()));
    for pfn in [Pfn(0), Pfn(1 << 8), Pfn(u64::MAX)] {
        for most in [0, 1, u64::MAX] {
            call!(table::find_frame, space.inspect().page_table(), pfn, range, most, &reading);
            let section = vm.read_in_handler();
            call!(Walker::find_frame_in_handler, space.walker(), pfn, range, most, &section);
        }
    }
    drop(reading);
    called!(Walker::scan_accessed_and_flush => space.walker().scan_accessed_and_flush(range, |_, _| ()));
}

/// Sections of another RCU keep none of the tables: all are refused.
fn foreign(space: &AddressSpace<'_, Lab>, base: VirtAddr) {
    let rcu = Rcu::<Host>::carve(&mut Heap, 2).expect("memory");
    let section = call!(Rcu::read_in_handler, &rcu).expect("a section");
    let reading = rcu.read();
    let range = VpnRange { start: base.vpn(), end: base.vpn().add(16) };
    let tree = space.inspect().page_table();
    assert!(call!(Walker::translate_in_handler, space.walker(), base, &section).is_none());
    assert!(call!(Walker::read_word_in_handler, space.walker(), base, &section).is_none());
    assert!(call!(Walker::find_frame_in_handler, space.walker(), Pfn(9), range, 9, &section).is_none());
    let (access, note) = (Access::Write, NoteUse::AsHardware);
    assert!(call!(Walker::translate_access, space.walker(), base, access, note, &reading).is_none());
    assert!(
        called!(Walker::scan_accessed => space.walker().scan_accessed(range, &reading, |_, _| ())).is_none()
    );
    assert!(
        called!(table::scan_accessed => table::scan_accessed(tree, range, &reading, |_, _| ())).is_none()
    );
    assert!(call!(table::translate, tree, base.vpn(), &reading).is_none());
    assert!(call!(table::translate_access, tree, base.vpn(), access, note, &reading).is_none());
    assert!(call!(table::find_frame, tree, Pfn(9), range, 9, &reading).is_none());
}

/// Walkers of tables alone, which map nothing.
pub fn mapper<F: Fn(VpnRange)>(mapper: &Mapper<'_, Lab, F>, page: Vpn) {
    for (access, note) in ACCESSES.into_iter().flat_map(|access| NOTES.map(|note| (access, note))) {
        let led = call!(Mapper::translate_access, mapper, page, access, note);
        assert!(led.is_some_and(|led| led.is_err()), "nothing is mapped");
    }
    for end in odd::vpns() {
        let range = VpnRange { start: page, end };
        let scan = called!(Mapper::scan_accessed => mapper.scan_accessed(range, |_, _| ()));
        assert!(scan.is_some_and(|scan| scan.is_err() || scan.is_ok_and(|scan| scan.leaves == 0)));
    }
}
