//! A walk over the views of an object, which keeps the object.

use crate::machine::Machine;
use crate::object::ViewPlace;
use crate::space::{AddressSpace, SpaceId, Vm};
use crate::vma::ObjectId;
use core::num::NonZeroU64;
use core::ops::{Deref, Range};

/// The views of an object that are there when the walk begins, and still when it comes to them; and those of
/// children whose parents it had not come to. Dropped with no lock held and outside any read section: the
/// object may end with it.
pub(in crate::space) struct ObjectViews<'a, 'v, M: Machine> {
    vm: &'a Vm<'v, M>,
    object: NonZeroU64,
    /// The view that the walk is at, and keeps.
    at: Option<NonZeroU64>,
}

impl<'a, 'v, M: Machine> ObjectViews<'a, 'v, M> {
    /// A walk that is at no view yet. `None` where the object is gone.
    pub fn new(vm: &'a Vm<'v, M>, object: NonZeroU64) -> Option<Self> {
        vm.objects.try_hold(&vm.rcu, object).then_some(Self { vm, object, at: None })
    }

    /// Where the next view is, and which pages of the object its mappings have covered, at most. May wait for
    /// readers.
    pub fn next(&mut self) -> Option<(ViewPlace, Range<u64>)> {
        let Self { vm, object, at } = self;
        vm.objects.next_view(&vm.memory, &vm.rcu, *object, at)
    }
}

/// How far a call about an object's pages has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[must_use = "spaces that were not found keep their entries"]
#[non_exhaustive]
pub struct ObjectReach {
    /// Views whose spaces were found: places in a space at which the object, or a part, is mapped.
    pub found: u64,
    /// Views whose spaces were not: those that have begun to end, and those that the caller does not know.
    pub missing: u64,
}

impl<'v, M: Machine> Vm<'v, M> {
    /// Calls `visit` for each view of an object that has some of the pages: with its space, where it is, and
    /// those pages. Spaces are found by `hold`. Called with no lock held and outside any read section, by a
    /// caller that may have to end a space.
    pub(in crate::space) fn visit_views<S>(
        &self,
        object: ObjectId,
        pages: &Range<u64>,
        hold: impl Fn(SpaceId) -> Option<S>,
        mut visit: impl FnMut(&AddressSpace<'v, M>, ViewPlace, &Range<u64>),
    ) -> ObjectReach
    where
        S: Deref<Target = AddressSpace<'v, M>>,
    {
        let mut reach = ObjectReach::default();
        let Some(mut views) = ObjectViews::new(self, object.number()) else { return reach };
        while let Some((place, hull)) = views.next() {
            let pages = pages.start.max(hull.start)..pages.end.min(hull.end);
            if pages.is_empty() {
                continue;
            }
            let held = hold(place.space);
            match held.as_deref().filter(|space| self.is_own_space(space, place.space)) {
                Some(space) => {
                    visit(space, place, &pages);
                    reach.found += 1;
                }
                None => reach.missing += 1,
            }
        }
        reach
    }
}

impl<M: Machine> Drop for ObjectViews<'_, '_, M> {
    fn drop(&mut self) {
        let Self { vm, object, at } = *self;
        if let Some(at) = at {
            vm.objects.end_walk(&vm.memory, &vm.rcu, object, at);
        }
        vm.objects.release(&vm.memory, &vm.rcu, object);
    }
}
