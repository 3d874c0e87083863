//! Pagers of objects.

use crate::world::{Lab, must_work, on_cpu};
use crate::{call, called};
use interleaf::frame::PageFill;
use interleaf::object::{PageAnswer, Pager, PagerKey};
use interleaf::space::{AddressSpace, Fault, MapRequest, ObjectHandle, Sharing, Vm, VmOptions};
use interleaf::units::{Access, VirtAddr};
use interleaf_lab::machine::soft::boot_map;

type Space<'v> = AddressSpace<'v, Lab>;

/// Calls all that is about pagers, on a machine of its own.
pub fn run(new_space: impl for<'f> Fn(&'f Vm<'f, Lab>) -> Space<'f>) {
    on_cpu(|machine| paged(machine, new_space));
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
            _ => PageAnswer::Beyond,
        }
    }
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
