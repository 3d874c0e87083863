//! Pages of 1 GiB: found among the free blocks of a node, mapped by one entry, given back.

use super::*;
use crate::space::tests::pin::{Limit, pfns, slots};

const GIANT: u64 = PageSize::Giant.pages();

#[test]
fn a_giant_page_is_reserved_mapped_pinned_and_given_back() {
    // The machine's first frame lies at a quarter of a giant page.
    let machine = TestMachine::with_cpus(GIANT * 2, 2);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let before = vm.memory().check().unwrap().allocated;
    let counts = vm.resize_huge_pool(PageSize::Giant, 2);
    assert_eq!(counts, PoolCounts { total: 1, free: 1, ..PoolCounts::default() });
    vm.memory().check().unwrap();
    let space = space_of(&vm);
    let request = MapRequest { place: Place::Fixed(at(0)), ..MapRequest::anonymous(1) };
    space.map_huge_pool(&request, PageSize::Giant).unwrap();
    assert_eq!(space.map_huge_pool(&request, PageSize::Giant), Ok(at(0)), "over itself");
    assert_eq!(vm.memory().huge_pool(PageSize::Giant).reserved, 1);
    assert_eq!(space.unmap(at(0), BYTES), Err(Error::Invalid));
    let last = Vpn(BASE + GIANT - 1).addr();
    space.fault(Fault { addr: last, access: Access::Write }).unwrap();
    let head = leaf(&space, 0).unwrap().pfn;
    assert!(head.0.is_multiple_of(GIANT));
    let limit = Limit::new(9);
    let pins = space.try_pin_fast(last, Access::Write, &limit, slots(1), &vm.read()).unwrap();
    assert_eq!(pfns(&pins), [head.add(GIANT - 1)]);
    let child = space.fork().unwrap();
    assert_eq!(fault(&child, 3, Access::Read), Err(FaultError::PoolEmpty));
    drop((pins, child, space));
    vm.trim();
    assert_eq!(vm.memory().huge_pool(PageSize::Giant), counts);
    assert_eq!(vm.resize_huge_pool(PageSize::Giant, 0), PoolCounts::default());
    vm.trim();
    assert_eq!(vm.memory().check().unwrap().allocated, before);
}
