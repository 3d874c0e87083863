//! madvise of huge pages of shared memory.

use crate::machine::Format;
use crate::machine::testing::TestMachine;
use crate::space::tests::world::PAGE;
use crate::space::tests::world::huge::{HUGE, at};
use crate::space::tests::world::shared_huge::{
    Space, THP, counted, in_each, is_huge, leaf, load, recount, shared,
};
use crate::space::{Advice, Error, Vm};

#[test]
fn dontneed_drops_entries_and_no_contents() {
    fn test<F: Format>(vm: &Vm<'_, TestMachine<F>>, space: Space<'_, F>) {
        let child = shared(&space);
        space.advise(at(3), 4 * PAGE, Advice::DontNeed).unwrap();
        assert_eq!(leaf(&space, 3), None);
        assert_eq!((load(&space, 3), is_huge(&space, 3)), (3, true), "it is one mapping still");
        space.advise(at(0), 2 * HUGE * PAGE, Advice::DontNeed).unwrap();
        assert_eq!((counted(vm, THP), recount(vm, &[&space, &child])), ([2, 0, 5, 2], 2 * HUGE));
        assert_eq!((load(&space, 7), load(&child, 7)), (7, 7));
        for advice in [Advice::Free, Advice::Collapse] {
            assert_eq!(space.advise(at(0), HUGE * PAGE, advice), Err(Error::Invalid));
        }
        assert_eq!(recount(vm, &[&space, &child]), 2 * HUGE);
    }
    in_each!(8 * HUGE, Always, test);
}
