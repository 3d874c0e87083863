//! Layouts that contradict themselves or the format are refused.

use super::world::{boot_map, space_of};
use crate::machine::testing::{TestFormat, TestMachine};
use crate::space::{AddressSpace, Error, Layout, MapRequest, Path, Vm};
use crate::units::{VirtAddr, Vpn, VpnRange};
use crate::vma::Areas;

type Change = fn(Layout) -> Layout;

fn with_areas(layout: Layout, change: impl FnOnce(&mut Areas)) -> Layout {
    let mut areas = layout.areas;
    change(&mut areas);
    Layout { areas, ..layout }
}

#[test]
fn a_layout_that_contradicts_itself_is_refused_and_takes_no_memory() {
    let machine = TestMachine::new(600);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let before = vm.memory().check().unwrap().allocated;
    let refused: [(&str, Change); 14] = [
        ("no user pages", |l| with_areas(l, |a| a.user = VpnRange::default())),
        ("empty", |l| with_areas(l, |a| a.user.end = a.user.start)),
        ("inverted", |l| with_areas(l, |a| a.user = VpnRange { start: a.user.end, end: a.user.start })),
        ("beyond the format", |l| with_areas(l, |a| a.user.end = a.user.end.add(2))),
        ("near 2^64", |l| with_areas(l, |a| a.user.end = Vpn(u64::MAX))),
        ("mmap base beyond the end", |l| with_areas(l, |a| a.mmap_base = Vpn(1 << 40))),
        ("mmap base before the start", |l| with_areas(l, |a| a.mmap_base = Vpn(1))),
        ("mmap base near 2^64", |l| with_areas(l, |a| a.mmap_base = Vpn(u64::MAX))),
        ("legacy base beyond the end", |l| with_areas(l, |a| a.legacy_base = a.user.end.add(1))),
        ("legacy base before the start", |l| with_areas(l, |a| a.legacy_base = Vpn(0))),
        ("heap beyond the end", |l| Layout { heap_start: VirtAddr(l.areas.user.end.addr().0 + 1), ..l }),
        ("heap near 2^64", |l| Layout { heap_start: VirtAddr(u64::MAX), ..l }),
        ("heap before the start", |l| Layout { heap_start: VirtAddr(0), ..l }),
        ("a count that overflows", |l| Layout { max_mappings: usize::MAX, ..l }),
    ];
    for (what, change) in refused {
        let layout = change(Layout::linux::<TestFormat>());
        let made = AddressSpace::new(&vm, layout, Path::Speculative).map(|_space| ());
        assert_eq!(made, Err(Error::Invalid), "{what}");
    }
    vm.trim();
    assert_eq!(vm.memory().check().unwrap().allocated, before);
}

#[test]
fn bases_and_heap_may_lie_at_either_end() {
    let machine = TestMachine::new(600);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let linux = *space_of(&vm).layout();
    let user = linux.areas.user;
    for at in [user.start, user.end] {
        let areas = Areas { mmap_base: at, legacy_base: at, ..linux.areas };
        let layout = Layout { areas, heap_start: at.addr(), ..linux };
        let space = AddressSpace::new(&vm, layout, Path::Speculative).unwrap();
        let mapped = space.map(&MapRequest::anonymous(4096));
        assert!(mapped.is_ok_and(|addr| user.contains(addr.vpn())));
        assert!(space.brk(VirtAddr(at.addr().0 + 4096)) >= at.addr());
    }
}
