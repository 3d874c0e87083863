//! Objects: of odd lengths, mapped from odd pages on; found at odd addresses, in the same space and in
//! another; and in a space of another machine.

use crate::world::{Lab, must_work, on_cpu};
use crate::{call, called, odd};
use interleaf::space::{AddressSpace, Advice, MapBacking, MapRequest, ObjectHandle, ObjectPages, Place};
use interleaf::space::{Sharing, Vm};
use interleaf::units::VirtAddr;
use interleaf_lab::machine::soft::{boot_map, current};

type Space<'v> = AddressSpace<'v, Lab>;

/// Calls all that makes, finds and maps objects, with two spaces of a system.
pub fn run(
    vm: &Vm<'_, Lab>,
    [space, other]: [&Space<'_>; 2],
    new_space: impl for<'f> Fn(&'f Vm<'f, Lab>) -> Space<'f> + Sync,
) {
    made(vm, space);
    let request = MapRequest { sharing: Sharing::Shared, ..MapRequest::anonymous(16 * 4096) };
    let base = space.map(&request).expect("room");
    space.advise(base, 16 * 4096, Advice::PopulateWrite).expect("memory");
    for from in odd::virt_addrs().chain([base, VirtAddr(base.0 + 4096)]) {
        for len_bytes in [0, 4096, 16 * 4096, u64::MAX] {
            for place in [Place::Hint(VirtAddr(0)), Place::Fixed(base), Place::Fixed(from)] {
                let request = MapRequest { len_bytes, place, ..request };
                for (to, of) in [(space, space), (other, space), (space, other)] {
                    let found = call!(AddressSpace::object_at, of, from).expect("it panics nowhere");
                    let Some((object, first)) = found else { continue };
                    let _ = call!(AddressSpace::map, to, &request.backed_by(object.at_page(first)));
                }
            }
        }
    }
    let (object, first) = space.object_at(base).expect("an object is there");
    let request = request.backed_by(object.at_page(first));
    let kept = current::suspend();
    on_cpu(|machine| {
        let vm = Vm::new(machine, boot_map(machine)).expect("memory");
        let foreign = new_space(&vm);
        let _ = called!(AddressSpace::map => foreign.map(&request));
        assert_eq!(foreign.inspect().nr_mappings(), 0, "memory of another machine is mapped");
        drop(foreign);
        must_work(machine, &vm);
    });
    current::resume(kept);
    drop(object);
    space.unmap(VirtAddr(0x1000), (1 << 47) - 0x3000).expect("all of it");
}

fn made(vm: &Vm<'_, Lab>, space: &Space<'_>) {
    for len_bytes in [0, 1, 16 * 4096, 1 << 57, (1 << 57) + 1, u64::MAX] {
        let made = call!(ObjectHandle::new, vm, len_bytes).expect("it panics nowhere");
        let Ok(object) = made else { continue };
        let held = called!(ObjectHandle::clone => object.clone()).expect("it panics nowhere");
        assert_eq!(call!(ObjectHandle::id, &held), Some(object.id()));
        assert_eq!(call!(ObjectHandle::len_bytes, &object), Some(held.len_bytes()));
        assert_eq!(call!(ObjectHandle::is_written_back, &object), Some(false));
        for first in [0, 1, 15, 1 << 45, u64::MAX] {
            let backing = call!(ObjectHandle::at_page, &object, first).expect("it panics nowhere");
            let MapBacking::Object(pages) = backing else { panic!("pages of an object") };
            assert_eq!(call!(ObjectPages::first, pages), Some(first));
            for len_bytes in [0, 4096, 16 * 4096, u64::MAX] {
                for sharing in [Sharing::Private, Sharing::Shared] {
                    let request = MapRequest { sharing, ..MapRequest::anonymous(len_bytes) };
                    let request = called!(MapRequest::backed_by => request.backed_by(backing));
                    let request = request.expect("it panics nowhere");
                    let _ = call!(AddressSpace::map, space, &request);
                }
            }
        }
        drop(object);
        drop(held);
    }
}
