//! What is noted, and what fails.

use super::*;
use crate::measure::{Options, timed_machine};
use interleaf::space::{AddressSpace, Layout, MapRequest, Path, Place};
use interleaf::table::format::X86_64;
use interleaf::units::VirtAddr;

const fn peak(peak_bytes: u64, limit_bytes: u64, longest_grace_ns: u64) -> PeakGarbage {
    PeakGarbage { peak_objects: 1, peak_bytes, limit_bytes, longest_grace_ns }
}

#[test]
fn a_machine_notes_its_garbage_when_it_ends_on_a_cpu_or_not() {
    let machine = timed_machine::machine(&Options::small(), 1 << 12).unwrap();
    let run = || {
        let entered = machine.enter(CpuId(0));
        let vm = timed_machine::vm(&machine).unwrap();
        let space =
            AddressSpace::new(&vm, Layout::linux::<X86_64>().overcommit(), Path::Speculative).unwrap();
        let base = space.map(&MapRequest::anonymous(4096)).unwrap();
        space.unmap(base, 4096).unwrap();
        vm.synchronize();
        drop(space);
        drop(entered);
    };
    let ((), noted) = noted_in(run);
    let noted = noted.expect("a machine ended");
    assert!(noted.peak_objects > 0 && noted.peak_bytes > 0 && noted.longest_grace_ns > 0, "{noted:?}");
    assert_eq!(noted.check("test"), Ok(()));
    assert_eq!(noted_in(|| ()).1, None, "what was noted before does not count");
}

#[test]
fn what_one_call_unlinks_comes_on_top_of_the_limit() {
    let machine = timed_machine::machine(&Options::small(), 1 << 12).unwrap();
    let run = || {
        let _entered = machine.enter(CpuId(0));
        let vm = timed_machine::vm(&machine).unwrap();
        let space =
            AddressSpace::new(&vm, Layout::linux::<X86_64>().overcommit(), Path::Speculative).unwrap();
        for page in 0..10_000 {
            let place = Place::Fixed(VirtAddr((1 << 30) + page * 8192));
            space.map(&MapRequest { place, ..MapRequest::anonymous(4096) }).unwrap();
        }
        drop(space);
        let stats = vm.garbage_stats();
        assert!(stats.peak_bytes > stats.most_bytes && stats.peak_objects > 10_000, "{stats:?}");
    };
    let ((), noted) = noted_in(run);
    assert_eq!(noted.expect("a machine ended").check("test"), Ok(()));
}

#[test]
fn a_grace_period_is_bounded() {
    assert_eq!(peak(1, 10, LONGEST_GRACE_NS).check("test"), Ok(()));
    let line = peak(1, 10, LONGEST_GRACE_NS + 1).check("test").unwrap_err().to_string();
    assert_eq!(line, "test: a grace period took 1000000001 ns");
}

#[test]
fn the_machine_nearest_to_its_limit_counts_and_fails_above_it() {
    let (near, far) = (peak(9, 10, 1), peak(50, 100, 7));
    assert_eq!(near.or(far), peak(9, 10, 7));
    assert_eq!(far.or(near), peak(9, 10, 7));
    assert_eq!(peak(10, 10, 0).check("test"), Ok(()));
    let line = peak(11, 10, 0).check("test").unwrap_err().to_string();
    assert_eq!(line, "test: 1 objects, 11 bytes, waited for readers at once; 10 may");
}
