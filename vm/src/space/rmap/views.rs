//! A walk over the views of an object, which keeps the object.

use crate::machine::Machine;
use crate::object::ViewPlace;
use crate::space::Vm;
use core::num::NonZeroU64;
use core::ops::Range;

/// The views of an object, in the order in which they were made: those that are there when the walk comes to
/// them. Dropped with no lock held and outside any read section: the object may end with it.
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

impl<M: Machine> Drop for ObjectViews<'_, '_, M> {
    fn drop(&mut self) {
        let Self { vm, object, at } = *self;
        if let Some(at) = at {
            vm.objects.end_walk(&vm.memory, &vm.rcu, object, at);
        }
        vm.objects.release(&vm.memory, &vm.rcu, object);
    }
}
