//! Flag words with all their bits: unknown bits are kept, because Linux has rules for them.

use linux_raw_sys::general as raw;

bitflags::bitflags! {
    /// The rights of `mmap` and `mprotect`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
    pub struct Prot: u32 {
        /// Data may be read.
        const READ = raw::PROT_READ;
        /// Data may be written.
        const WRITE = raw::PROT_WRITE;
        /// Instructions may be fetched.
        const EXEC = raw::PROT_EXEC;
        /// Accepted and ignored.
        const SEM = raw::PROT_SEM;
        /// From the start of the mapping on, if it grows down.
        const GROWSDOWN = raw::PROT_GROWSDOWN;
        /// To the end of the mapping, if it grows up.
        const GROWSUP = raw::PROT_GROWSUP;
        /// Any other bit.
        const _ = !0;
    }

    /// The flags of `mmap`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
    pub struct MapFlags: u32 {
        /// Writes are seen through every mapping of the object.
        const SHARED = raw::MAP_SHARED;
        /// Writes stay with the writer.
        const PRIVATE = raw::MAP_PRIVATE;
        /// At exactly this address, replacing mappings there.
        const FIXED = raw::MAP_FIXED;
        /// No file.
        const ANONYMOUS = raw::MAP_ANONYMOUS;
        /// Between 1 and 2 GiB (`MAP_32BIT`).
        const LOW = raw::MAP_32BIT;
        /// At 4 GiB or above, but for a hint that is free (`MAP_ABOVE4G`).
        const ABOVE4G = raw::MAP_ABOVE4G;
        /// A stack: the mapping grows down.
        const GROWSDOWN = raw::MAP_GROWSDOWN;
        /// All of it is locked in memory.
        const LOCKED = raw::MAP_LOCKED;
        /// The memory is not committed.
        const NORESERVE = raw::MAP_NORESERVE;
        /// All of it is made present at once.
        const POPULATE = raw::MAP_POPULATE;
        /// With POPULATE: nothing is made present.
        const NONBLOCK = raw::MAP_NONBLOCK;
        /// Meant for a stack: no huge pages.
        const STACK = raw::MAP_STACK;
        /// Of reserved huge pages.
        const HUGETLB = raw::MAP_HUGETLB;
        /// At exactly this address, or not at all.
        const FIXED_NOREPLACE = raw::MAP_FIXED_NOREPLACE;
        /// Any other bit.
        const _ = !0;
    }
}

impl MapFlags {
    /// The bits that hold shared or private.
    pub const TYPE: Self = Self::from_bits_retain(raw::MAP_TYPE);
    /// Where log2 of the size of reserved huge pages lies; 0 is the default.
    pub const HUGE_SHIFT: u32 = raw::MAP_HUGE_SHIFT;
    /// The bits of that number.
    pub const HUGE_MASK: u32 = raw::MAP_HUGE_MASK;
}

/// `mremap`: the pages may get another address.
pub const MREMAP_MAYMOVE: u64 = raw::MREMAP_MAYMOVE as u64;
/// `mremap`: the new address is an argument.
pub const MREMAP_FIXED: u64 = raw::MREMAP_FIXED as u64;
/// `mremap`: the old mapping stays, without its pages.
pub const MREMAP_DONTUNMAP: u64 = raw::MREMAP_DONTUNMAP as u64;
