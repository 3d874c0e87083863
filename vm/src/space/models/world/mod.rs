//! The spaces of the models, and how a model runs.
//!
//! | file | holds |
//! |---|---|
//! | `run` | one way to run a model: a machine, a system, a space, and the check of its frames |
//! | `case` | a program on one CPU against a writer on the other |
//! | `pair` | two programs that run one space |
//! | `fork` | a space whose pages a fork shares, with what it holds |
//! | `look` | what the entry of a page says |
//! | `pool` | a page of the hugetlb pool, which is set aside |
//! | `pins` | pins, and their limit |

mod case;
mod fork;
mod look;
mod pair;
mod pins;
mod pool;
mod run;

pub(in crate::space) use case::*;
pub(super) use fork::*;
pub(super) use look::*;
pub(super) use pair::*;
pub(super) use pins::*;
pub(super) use pool::*;
pub(super) use run::*;

use crate::frame::{BootMap, Init, Priority, Region, RegionKind};
use crate::machine::Format;
use crate::machine::testing::{TestMachine, TwoLevels};
use crate::space::*;
use crate::units::{Access, NodeId, PAGE_SIZE, VirtAddr, Vpn, VpnRange};
use crate::vma::Areas;

pub(in crate::space) type Space<F> = AddressSpace<'static, TestMachine<F>>;
pub(super) type Tests = TestMachine<TwoLevels>;
pub(super) type TestSpace = Space<TwoLevels>;
pub(super) type TestVm = Vm<'static, Tests>;

pub(in crate::space) const PAGE: u64 = PAGE_SIZE as u64;
/// First page of the mapping that is unmapped.
pub(in crate::space) const START: Vpn = Vpn(1024);
/// Number of its pages.
pub(in crate::space) const PAGES: u64 = 2;
/// Pages that one `Pte` table covers.
pub(in crate::space) const TABLE: u64 = 512;
/// The last page of the table.
pub(super) const LAST: Vpn = Vpn(START.0 + TABLE - 1);

/// Frames that a space has from the start: its root, and the slab of its node.
pub(super) const OF_SPACE: u64 = 2;

pub(super) fn layout() -> Layout {
    let user = VpnRange::new(Vpn(16), Vpn(2048));
    let areas = Areas { user, mmap_base: Vpn(2000), legacy_base: Vpn(600) };
    Layout { areas, heap_start: VirtAddr(PAGE << 10), max_mappings: 100, max_commit_pages: Some(1000) }
}

pub(super) fn boot_map<F: Format>(machine: &TestMachine<F>) -> BootMap {
    let frames = machine.frames();
    let (start, len_bytes) = (frames.start.addr(), frames.len() * PAGE);
    BootMap::new(&[Region { start, len_bytes, kind: RegionKind::Usable(Init::Zeroed), node: NodeId(0) }])
        .unwrap()
}

pub(in crate::space) fn map<F: Format>(space: &Space<F>, start: Vpn, pages: u64) {
    let request = MapRequest { place: Place::Fixed(start.addr()), ..MapRequest::anonymous(pages * PAGE) };
    space.map(&request).unwrap();
}

pub(in crate::space) fn unmap<F: Format>(space: &Space<F>, start: Vpn, pages: u64) {
    space.unmap(start.addr(), pages * PAGE).unwrap();
}

pub(in crate::space) fn touch<F: Format>(space: &Space<F>, page: Vpn) {
    space.fault(Fault { addr: page.addr(), access: Access::Write }).unwrap();
}

/// Fills this CPU's caches, and touches its words before there are threads.
pub(super) fn warm<F: Format>(space: &Space<F>) {
    let running = space.activate(None);
    let memory = space.vm().memory();
    drop([(); 2].map(|()| memory.alloc_zeroed(Priority::Normal).unwrap()));
    assert!(space.fault(Fault { addr: START.addr(), access: Access::Write }).is_err());
    drop(running);
}
