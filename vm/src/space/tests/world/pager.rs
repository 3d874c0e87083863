//! A pager that has its pages in memory.

use crate::object::PagerKey;
use crate::space::tests::world::object::{Object, PRIVATE, SHARED, Space, map};
use crate::space::*;

pub(in crate::space::tests) const KEY: PagerKey = PagerKey(7);

pub(in crate::space::tests) fn map_paged(space: &Space<'_>, object: &Object<'_>, pages: u64) {
    map(space, object, (SHARED, pages), Sharing::Shared);
    map(space, object, (PRIVATE, pages), Sharing::Private);
}
