//! The flags of a mapping: access rights, kind and advice.

use crate::units::Rights;
use bitflags::bitflags;

bitflags! {
    /// Flags of a mapping. Two neighbours are one mapping only if *all* of these are equal.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct VmaFlags: u32 {
        /// PROT_READ was asked for.
        const READ = 1 << 0;
        /// PROT_WRITE was asked for.
        const WRITE = 1 << 1;
        /// PROT_EXEC was asked for.
        const EXECUTE = 1 << 2;
        /// mprotect may add [`READ`](Self::READ).
        const MAY_READ = 1 << 4;
        /// mprotect may add [`WRITE`](Self::WRITE).
        const MAY_WRITE = 1 << 5;
        /// mprotect may add [`EXECUTE`](Self::EXECUTE).
        const MAY_EXECUTE = 1 << 6;
        /// Stores reach the backing (MAP_SHARED); without it a store makes a private copy.
        const SHARED = 1 << 8;
        /// MAP_NORESERVE: its pages are never counted as committed. Never changes.
        const NORESERVE = 1 << 9;
        /// Its pages are counted as committed memory. Invisible in /proc/self/maps, yet neighbours that
        /// differ in it are not joined.
        const ACCOUNT = 1 << 10;
        /// Grows towards lower addresses when touched below its start; a guard gap is kept there.
        const GROWS_DOWN = 1 << 11;
        /// Pages stay in memory.
        const LOCKED = 1 << 12;
        /// madvise: pages will be read in no order.
        const RANDOM_READ = 1 << 16;
        /// madvise: pages will be read in order.
        const SEQUENTIAL_READ = 1 << 17;
        /// A fork does not copy it.
        const DONT_FORK = 1 << 18;
        /// A fork copies it empty.
        const WIPE_ON_FORK = 1 << 19;
        /// Left out of core dumps.
        const DONT_DUMP = 1 << 20;
        /// Huge pages are wanted.
        const HUGE_PAGE = 1 << 21;
        /// Huge pages are not wanted (also MAP_STACK).
        const NO_HUGE_PAGE = 1 << 22;

        /// The flags that mprotect sets.
        const ACCESS = Self::READ.bits() | Self::WRITE.bits() | Self::EXECUTE.bits();
        /// The flags that limit what mprotect may set.
        const MAY_ACCESS = Self::MAY_READ.bits() | Self::MAY_WRITE.bits() | Self::MAY_EXECUTE.bits();
    }
}

/// Advice (madvise) that is kept in the flags of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FlagAdvice {
    /// No expectation about the order of reads.
    Normal,
    /// Reads in no order.
    Random,
    /// Reads in order.
    Sequential,
    /// Not copied by a fork.
    DontFork,
    /// Copied by a fork again.
    DoFork,
    /// Copied empty by a fork; only for private anonymous memory.
    WipeOnFork,
    /// Copied with its contents by a fork again.
    KeepOnFork,
    /// Left out of core dumps.
    DontDump,
    /// In core dumps again.
    DoDump,
    /// Huge pages wanted.
    HugePage,
    /// Huge pages not wanted.
    NoHugePage,
}

impl VmaFlags {
    /// The rights that entries may have: a right to write or to execute includes the right to read, as on
    /// x86.
    pub fn rights(self) -> Rights {
        let mut rights = Rights::USER;
        rights.set(Rights::READ, self.intersects(Self::ACCESS));
        rights.set(Rights::WRITE, self.contains(Self::WRITE));
        rights.set(Rights::EXECUTE, self.contains(Self::EXECUTE));
        rights
    }

    /// Whether a new mapping with these flags counts as committed memory: every page may need a private copy.
    pub fn commits_memory(self) -> bool {
        self & (Self::WRITE | Self::SHARED | Self::NORESERVE) == Self::WRITE
    }

    /// What a request for memory may ask for. The other flags are decided by the library, and dropped from a
    /// request, as Linux drops what it does not know from the words of mmap.
    pub const REQUESTABLE: Self = Self::ACCESS
        .union(Self::NORESERVE)
        .union(Self::GROWS_DOWN)
        .union(Self::RANDOM_READ)
        .union(Self::SEQUENTIAL_READ)
        .union(Self::DONT_FORK)
        .union(Self::WIPE_ON_FORK)
        .union(Self::DONT_DUMP)
        .union(Self::HUGE_PAGE)
        .union(Self::NO_HUGE_PAGE);

    /// The flags of a new private anonymous mapping, of which `asked` says what is
    /// [`REQUESTABLE`](Self::REQUESTABLE): mprotect may give it any access right, and writable memory counts
    /// as committed.
    pub fn new_anonymous(asked: Self) -> Self {
        let flags = (asked & Self::REQUESTABLE) | Self::MAY_ACCESS;
        if flags.commits_memory() { flags | Self::ACCOUNT } else { flags }
    }

    /// The flags of a new shared mapping, likewise. Shared memory neither grows down nor is wiped by a fork.
    pub fn new_shared(asked: Self) -> Self {
        const PRIVATE_ONLY: VmaFlags = VmaFlags::GROWS_DOWN.union(VmaFlags::WIPE_ON_FORK);
        (asked & Self::REQUESTABLE.difference(PRIVATE_ONLY)) | Self::SHARED | Self::MAY_ACCESS
    }

    /// The flags of a new private mapping of an object, likewise: its pages are copied when they are stored
    /// to, so that writable memory counts as committed. It neither grows down nor is wiped by a fork.
    pub fn new_private(asked: Self) -> Self {
        Self::new_anonymous(asked - Self::GROWS_DOWN.union(Self::WIPE_ON_FORK))
    }

    /// The flags of a new mapping of the hugetlb pool, likewise; of shared memory with
    /// [`SHARED`](Self::SHARED) besides. It is not counted as committed: the pool has an account of its own.
    /// It does not grow, and its pages are huge whatever the advice.
    pub fn new_hugetlb(asked: Self) -> Self {
        const WITHOUT: VmaFlags = VmaFlags::GROWS_DOWN
            .union(VmaFlags::WIPE_ON_FORK)
            .union(VmaFlags::HUGE_PAGE)
            .union(VmaFlags::NO_HUGE_PAGE);
        (asked & Self::REQUESTABLE.difference(WITHOUT)) | Self::MAY_ACCESS
    }

    /// The flags of heap memory, which brk grows: always counted as committed.
    pub fn heap() -> Self {
        Self::READ | Self::WRITE | Self::MAY_ACCESS | Self::ACCOUNT
    }

    /// The flags with other access rights; `None` if one of them is not allowed (EACCES).
    pub fn with_access(self, access: Self) -> Option<Self> {
        let access = access & Self::ACCESS;
        let may = Self::from_bits_truncate((self & Self::MAY_ACCESS).bits() >> 4);
        let allowed = mutant!("protect.limit-ignored") || may.contains(access);
        allowed.then_some((self - Self::ACCESS) | access)
    }

    /// The flags after a piece of advice.
    pub fn advised(self, advice: FlagAdvice) -> Self {
        let order = Self::RANDOM_READ | Self::SEQUENTIAL_READ;
        match advice {
            FlagAdvice::Normal => self - order,
            FlagAdvice::Random => (self - order) | Self::RANDOM_READ,
            FlagAdvice::Sequential => (self - order) | Self::SEQUENTIAL_READ,
            FlagAdvice::DontFork => self | Self::DONT_FORK,
            FlagAdvice::DoFork => self - Self::DONT_FORK,
            FlagAdvice::WipeOnFork => self | Self::WIPE_ON_FORK,
            FlagAdvice::KeepOnFork => self - Self::WIPE_ON_FORK,
            FlagAdvice::DontDump => self | Self::DONT_DUMP,
            FlagAdvice::DoDump => self - Self::DONT_DUMP,
            FlagAdvice::HugePage => (self - Self::NO_HUGE_PAGE) | Self::HUGE_PAGE,
            FlagAdvice::NoHugePage => (self - Self::HUGE_PAGE) | Self::NO_HUGE_PAGE,
        }
    }
}
