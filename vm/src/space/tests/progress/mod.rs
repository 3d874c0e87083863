//! Retries without progress: each ends after a bounded number of rounds, with an error.

mod pool;

use super::world::{PAGE, boot_map, ends_in, leak, space_of};
use crate::machine::testing::{TestCpu, TestMachine};
use crate::space::*;
use crate::sync::withhold;
use crate::table::{Poison, SlotMarker, walk};
use crate::units::{Access, Level, PageSize, VirtAddr, Vpn};
use std::vec::Vec;

type Space<'v> = AddressSpace<'v, TestMachine>;

const HUGE: u64 = PageSize::Huge.pages();
/// Pages of the mapping.
const PAGES: u64 = 16;

/// A space with a mapping whose first page is there, on a machine that stays.
fn mapped(path: Path) -> (&'static Space<'static>, VirtAddr) {
    let machine = TestMachine::leaked(8 * HUGE, 2);
    machine.run_as(0);
    let vm = leak(Vm::new(machine, boot_map(machine)).unwrap());
    let space = leak(AddressSpace::new(vm, *space_of(vm).layout(), path).unwrap());
    let base = space.map(&MapRequest::anonymous(PAGES * PAGE)).unwrap();
    space.fault(Fault { addr: base, access: Access::Write }).unwrap();
    (space, base)
}

/// Puts a marker at which no call is working into the entry of the second page.
fn marked(path: Path, marker: SlotMarker) -> (&'static Space<'static>, VirtAddr, VirtAddr) {
    let (space, base) = mapped(path);
    let page = VirtAddr(base.0 + PAGE);
    let reading = space.vm.read();
    let found = walk(&space.entries.table, page.vpn(), Level::Pte, &reading);
    assert!(found.table.lock().unwrap().mark(found.slot, marker));
    (space, base, page)
}

/// What the call returns on a thread of its own, as CPU 1.
fn ended<R: Send + 'static>(
    space: &'static Space<'static>,
    call: impl FnOnce(&'static Space<'static>) -> R + Send + 'static,
) -> R {
    let result = ends_in(120, move || {
        space.vm().machine().run_as(1);
        call(space)
    });
    result.expect("the call never ends")
}

fn pin(space: &Space<'_>, addr: VirtAddr) -> Result<usize, Error> {
    let limit = MemlockLimit::<TestCpu>::new(100);
    space.pin_pages_slow(addr, Access::Write, &limit, [None]).map(|pins| pins.len())
}

#[test]
fn populating_what_faults_refuse_ends() {
    for access in [Advice::PopulateRead, Advice::PopulateWrite] {
        let (space, base, page) = marked(Path::Speculative, SlotMarker::Poisoned(Poison::HugetlbUnmapped));
        let fault = Fault { addr: page, access: Access::Read };
        assert_eq!(space.fault(fault), Err(FaultError::NotSupported));
        let populated = ended(space, move |space| space.advise(base, PAGES * PAGE, access));
        assert_eq!(populated, Err(Error::Fault));
    }
}

#[test]
fn calls_end_at_a_marker_at_which_no_call_is_working() {
    for path in Path::ALL {
        let (space, base, page) = marked(path, SlotMarker::Busy);
        for access in [Access::Read, Access::Write] {
            let faulted = ended(space, move |space| space.fault(Fault { addr: page, access }));
            assert_eq!(faulted, Err(FaultError::Stalled));
        }
        let populate = move |space: &Space<'_>| space.advise(base, PAGES * PAGE, Advice::PopulateWrite);
        assert_eq!(ended(space, populate), Err(Error::Fault));
        assert_eq!(ended(space, move |space| pin(space, page)), Err(Error::Fault));
        let copied = ended(space, move |space| {
            let copied = space.copy_to(base, &[7; 2 * PAGE as usize]);
            (copied, space.copy_from(page, &mut [0]))
        });
        assert_eq!(copied, (Ok(PAGE as usize), Err(Error::Fault)));
        let resident = ended(space, move |space| {
            let mut resident = Vec::new();
            space.mincore(base, 3 * PAGE, |_, is_there| resident.push(is_there)).map(|()| resident)
        });
        assert_eq!(resident, Ok(std::vec![true, false, false]));
    }
}

/// The cursor of a fork that is not under way: a wait for its end finds no writer.
#[test]
fn a_store_ends_behind_the_cursor_of_a_fork_that_does_not_go_on() {
    for path in Path::ALL {
        let (space, base) = mapped(path);
        let fork = space.entries.fork.begin();
        fork.advance(Vpn(base.vpn().0 + PAGES));
        let store = move |space: &Space<'_>| {
            space.fault(Fault { addr: VirtAddr(base.0 + PAGE), access: Access::Write })
        };
        assert_eq!(ended(space, store), Err(FaultError::Stalled));
        drop(fork);
        assert!(ended(space, store).is_ok());
    }
}

/// Maps a page of the hugetlb pool somewhere behind the page.
fn map_hugetlb(space: &Space<'_>, after: VirtAddr) -> Result<(), Error> {
    let size = PageSize::Huge;
    let place = Place::Fixed(VirtAddr(after.0.next_multiple_of(size.bytes())));
    space.vm().resize_hugetlb(size, 1);
    space
        .map(
            &MapRequest { place, ..MapRequest::anonymous(size.bytes()) }.backed_by(MapBacking::Hugetlb(size)),
        )
        .map(drop)
}

/// Each retry of a call that carries progress, and the error where that is withheld.
#[test]
fn a_retry_whose_progress_is_withheld_ends_with_an_error() {
    type Call = fn(&Space<'_>, VirtAddr) -> Result<(), Error>;
    let populate: Call = |space, base| space.advise(base, PAGE, Advice::PopulateWrite);
    let calls: [(&str, Call, Error); 6] = [
        ("fault", populate, Error::Fault),
        ("populate", populate, Error::Fault),
        ("pin", |space, base| pin(space, base).map(drop), Error::Fault),
        ("copy", |space, base| space.copy_from(base, &mut [0]).map(drop), Error::Fault),
        ("place-in-hole", map_hugetlb, Error::NoMemory),
        (
            "fork.leaf",
            |space, base| map_hugetlb(space, base).and_then(|()| space.fork().map(drop)),
            Error::NoMemory,
        ),
    ];
    for (name, call, error) in calls {
        let (space, base) = mapped(Path::Locked);
        let call_of = move |space: &Space<'static>| call(space, base);
        let withheld = ended(space, move |space| withhold(name, || call_of(space)));
        assert_eq!(withheld, Err(error), "{name}");
        assert_eq!(ended(space, move |space| space.fork().map(drop)), Ok(()), "{name}");
    }
    let (space, base) = mapped(Path::Locked);
    let resident = move |space: &Space<'_>| space.inspect().resident_frame(base.vpn());
    assert_eq!(ended(space, move |space| withhold("mincore", || resident(space))), None);
    assert!(ended(space, resident).is_some());
}
