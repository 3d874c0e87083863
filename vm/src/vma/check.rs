//! What is true of every list of mappings.
//!
//! That no two neighbours could be joined is *not* among it: Linux joins only what a call touches, so
//! neighbours that become alike later stay two.

use super::{VmaAttributes, VmaFlags};
use core::fmt;

/// What is wrong with a list of mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flaw {
    /// A mapping without pages.
    Empty(VmaAttributes),
    /// A mapping that begins before the end of the one listed before it.
    Overlap(VmaAttributes, VmaAttributes),
    /// Shared memory without a backing to share, or with private copies.
    SharedWithoutObject(VmaAttributes),
    /// An access right that may not be given.
    Forbidden(VmaAttributes),
    /// Pages counted as promised that never can be: shared, or asked for without reserve.
    CountedInVain(VmaAttributes),
    /// Untouched anonymous memory that remembers another place than its own.
    Displaced(VmaAttributes),
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
    } else if shared && (attributes.backing.is_none() || !attributes.anon.is_none()) {
        Err(Flaw::SharedWithoutObject(*attributes))
    } else if flags.with_access(flags).is_none() {
        Err(Flaw::Forbidden(*attributes))
    } else if flags.contains(VmaFlags::ACCOUNT) && flags.intersects(VmaFlags::SHARED | VmaFlags::NORESERVE) {
        Err(Flaw::CountedInVain(*attributes))
    } else if is_displaced(attributes) {
        Err(Flaw::Displaced(*attributes))
    } else {
        Ok(())
    }
}

/// A fork's empty copy keeps the place its parent's copies had.
fn is_displaced(attributes: &VmaAttributes) -> bool {
    attributes.is_private_anonymous()
        && attributes.anon.is_none()
        && !attributes.flags.contains(VmaFlags::WIPE_ON_FORK)
        && attributes.offset != attributes.range.start.0
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
            Flaw::CountedInVain(at) => write!(f, "counted pages that promise nothing: {at:?}"),
            Flaw::Displaced(at) => write!(f, "untouched memory that remembers another place: {at:?}"),
        }
    }
}

impl core::error::Error for Flaw {}

#[cfg(test)]
mod tests {
    use super::super::{AnonId, BackingId};
    use super::*;
    use crate::units::{Vpn, VpnRange};
    use core::num::NonZeroUsize;

    #[test]
    fn each_flaw_is_found() {
        let pages = |start, end| VpnRange::new(Vpn(start), Vpn(end));
        let flags = VmaFlags::READ | VmaFlags::MAY_ACCESS;
        let good = VmaAttributes::anonymous(pages(4, 8), flags);
        assert_eq!(check([good, good.moved_to(pages(8, 9))]), Ok(()));
        let bad = |attributes: VmaAttributes| check([attributes]).unwrap_err();
        let empty = VmaAttributes::anonymous(pages(4, 4), flags);
        assert_eq!(bad(empty), Flaw::Empty(empty));
        assert_eq!(check([good, good.over(pages(7, 9))]), Err(Flaw::Overlap(good, good.over(pages(7, 9)))));
        let shared = good.with_flags(flags | VmaFlags::SHARED);
        assert_eq!(bad(shared), Flaw::SharedWithoutObject(shared));
        let object = Some(BackingId(NonZeroUsize::MIN));
        let copied = VmaAttributes { backing: object, anon: AnonId::new(1), ..shared };
        assert_eq!(bad(copied), Flaw::SharedWithoutObject(copied));
        let forbidden = good.with_flags(VmaFlags::WRITE | VmaFlags::MAY_READ);
        assert_eq!(bad(forbidden), Flaw::Forbidden(forbidden));
        let counted = good.with_flags(flags | VmaFlags::ACCOUNT | VmaFlags::NORESERVE);
        assert_eq!(bad(counted), Flaw::CountedInVain(counted));
        let displaced = VmaAttributes { offset: 5, ..good };
        assert_eq!(bad(displaced), Flaw::Displaced(displaced));
        assert_eq!(check([VmaAttributes { anon: AnonId::new(1), ..displaced }]), Ok(()));
    }
}
