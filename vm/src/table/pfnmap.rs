//! Frames that the library does not own, and that page tables may map: those of PFN mappings. (Linux:
//! `VM_PFNMAP`.)

use super::{LeafBits, MapError};
use crate::frame::MAX_PHYS_BITS;
use crate::machine::{CacheType, Entry, Format, LeafKind};
use crate::units::{PAGE_SHIFT, PageSize, Pfn, PfnRange, Rights};

/// Frames for PFN mappings: registers of a device, memory of a guest, memory that is managed
/// elsewhere. The library never reads or writes them, has no record of them, and frees nothing of them.
///
/// The maker of the value vouches for the frames; what is done with it is safe.
#[derive(Debug, PartialEq, Eq)]
pub struct PfnMapFrames {
    frames: PfnRange,
    rights: Rights,
    cache: CacheType,
}

impl PfnMapFrames {
    /// The frames, for leaves that allow at most `rights`.
    ///
    /// # Safety
    /// As long as the value exists, or a leaf that was made by it:
    ///
    /// 1. Code that runs under a tree which maps the frames may access them as `rights` say, at any time: no
    ///    Rust code and nothing else relies on what they hold, or has been promised that they stay unread.
    /// 2. `cache` is a type by which the machine allows them to be accessed, also while other code accesses
    ///    them by the type that it has for them.
    /// 3. They are not frames that the library owns, but for those that a value of its own keeps allocated.
    pub const unsafe fn new(frames: PfnRange, rights: Rights, cache: CacheType) -> Self {
        Self { frames, rights, cache }
    }

    /// The same frames, cached otherwise; for tests.
    #[cfg(all(test, not(loom)))]
    pub(crate) const fn cached_as(self, cache: CacheType) -> Self {
        Self { cache, ..self }
    }

    /// The frames.
    pub const fn frames(&self) -> PfnRange {
        self.frames
    }

    /// What leaves may allow.
    pub const fn rights(&self) -> Rights {
        self.rights
    }

    /// How accesses are cached.
    pub const fn cache(&self) -> CacheType {
        self.cache
    }

    /// Whether leaves may map all of the frames, which are some, with the rights.
    pub(super) fn allows(&self, frames: PfnRange, rights: Rights) -> bool {
        !frames.is_empty() && self.frames.covers(frames) && self.rights.contains(rights)
    }
}

/// Checks that `pfnmap` has the frames and allows the rights of `bits`, and that entries can say so.
pub(crate) fn check_frames<F: Format>(
    pfnmap: &PfnMapFrames,
    frames: PfnRange,
    size: PageSize,
    bits: LeafBits,
) -> Result<(), MapError> {
    if !pfnmap.allows(frames, bits.rights) && !mutant!("mapper.more-than-given") {
        return Err(MapError::NotAllowed);
    }
    let is_physical = frames.end.0 <= 1 << (MAX_PHYS_BITS - PAGE_SHIFT);
    let survives = |pfn: u64| {
        let entry = Entry::Leaf(bits.leaf(Pfn(pfn & !(size.pages() - 1)), LeafKind::NOT_OWNED));
        F::decode(F::encode(entry, size.level()), size.level()) == entry
    };
    let fits =
        is_physical && size.level() <= F::ROOT && survives(frames.start.0) && survives(frames.end.0 - 1);
    if fits { Ok(()) } else { Err(MapError::Unencodable) }
}
