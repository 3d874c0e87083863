//! The invariants of a list of mappings.
//!
//! That no two neighbours could be joined is *not* one of them: Linux joins only mappings that a call
//! touches, so neighbours that become alike later stay two. Nor is it that untouched anonymous memory has the
//! offset of its place: what a fork has wiped, or mremap has left behind empty, keeps the one that it had.

use super::{VmaAttributes, VmaFlags};
use core::fmt;

/// A broken invariant of a list of mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A mapping without pages.
    Empty(VmaAttributes),
    /// A mapping that begins before the end of the one listed before it.
    Overlap(VmaAttributes, VmaAttributes),
    /// Shared memory without a backing to share, or with private copies.
    SharedWithoutObject(VmaAttributes),
    /// An access right that may not be given.
    Forbidden(VmaAttributes),
    /// ACCOUNT on pages that are never committed: shared, or mapped with MAP_NORESERVE.
    CountedInVain(VmaAttributes),
}

/// Checks mappings listed in ascending order.
///
/// # Errors
/// The first flaw.
pub fn check(list: impl IntoIterator<Item = VmaAttributes>) -> Result<(), Flaw> {
    let mut before: Option<VmaAttributes> = None;
    for attributes in list {
        check_alone(&attributes)?;
        if let Some(before) = before
            && before.range.end > attributes.range.start
        {
            return Err(Flaw::Overlap(before, attributes));
        }
        before = Some(attributes);
    }
    Ok(())
}

fn check_alone(attributes: &VmaAttributes) -> Result<(), Flaw> {
    let flags = attributes.flags;
    let shared = flags.contains(VmaFlags::SHARED);
    if attributes.range.is_empty() {
        Err(Flaw::Empty(*attributes))
    } else if shared && (attributes.is_anonymous() || !attributes.anon.is_none()) {
        Err(Flaw::SharedWithoutObject(*attributes))
    } else if flags.with_access(flags).is_none() {
        Err(Flaw::Forbidden(*attributes))
    } else if flags.contains(VmaFlags::ACCOUNT) && flags.intersects(VmaFlags::SHARED | VmaFlags::NORESERVE) {
        Err(Flaw::CountedInVain(*attributes))
    } else {
        Ok(())
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flaw::Empty(at) => write!(f, "a mapping without pages: {at:?}"),
            Flaw::Overlap(a, b) => {
                write!(f, "two mappings share a page or are out of order: {a:?} and {b:?}")
            }
            Flaw::SharedWithoutObject(at) => {
                write!(f, "shared memory with no object, or with copies: {at:?}")
            }
            Flaw::Forbidden(at) => write!(f, "an access right that may not be given: {at:?}"),
            Flaw::CountedInVain(at) => write!(f, "charged pages that commit no memory: {at:?}"),
        }
    }
}

impl core::error::Error for Flaw {}
