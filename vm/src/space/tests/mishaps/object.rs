//! Private mappings of objects, where memory runs out.

use crate::space::tests::world::PAGE;
use crate::space::tests::world::mishaps::each_allocation;
use crate::space::tests::world::object::{Object, PRIVATE, Space, at, fault, in_each, request};
use crate::space::*;
use crate::units::Access;

/// What a program does with private memory, its fork and a debugger.
fn steps(space: &Space<'_>, object: &Object<'_>) -> Result<(), Error> {
    let lacks = |error| match error {
        FaultError::NoMemory => Error::NoMemory,
        other => panic!("{other}"),
    };
    space.map(&request(PRIVATE, 4, Sharing::Private).backed_by(object.at_page(0)))?;
    fault(space, PRIVATE, Access::Read).map_err(lacks)?;
    fault(space, PRIVATE, Access::Write).map_err(lacks)?;
    fault(space, PRIVATE + 1, Access::Write).map_err(lacks)?;
    space.copy_to_forced(at(PRIVATE + 2), &[1])?;
    let child = space.fork()?;
    fault(&child, PRIVATE + 1, Access::Write).map_err(lacks)?;
    fault(&child, PRIVATE + 3, Access::Write).map_err(lacks)
}

/// Whichever allocation is refused, and the next ones: all is done, or memory lacks; and all comes back.
#[test]
fn a_lack_of_memory_loses_nothing() {
    let allocations = each_allocation(|nth| {
        let has_struck = core::cell::Cell::new(false);
        in_each(|vm, space| {
            let object = ObjectHandle::new(vm, 4 * PAGE).unwrap();
            vm.memory().plan_mishaps(nth, 8);
            let result = steps(&space, &object);
            has_struck.set(has_struck.get() | !vm.memory().is_mishap_planned());
            vm.memory().plan_mishap(0);
            assert!(matches!(result, Ok(()) | Err(Error::NoMemory)), "allocation {nth}: {result:?}");
            vm.memory().check().unwrap();
            space.inspect().check_index().unwrap();
        });
        has_struck.get()
    });
    assert!(allocations >= 8, "{allocations} allocations");
}
