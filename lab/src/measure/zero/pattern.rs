//! What the programs of the seed do with memory that they only read.

/// How memory is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Both halves are compared, byte by byte: a line of one, then the same line of the other.
    CompareHalves,
    /// A byte of each page of one half is compared with that of the other.
    BytePerPage,
}

/// Bytes of a cache line.
pub const LINE: u64 = 64;
/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// Bytes of a huge page.
pub const HUGE: u64 = 2 << 20;

impl Pattern {
    /// Both.
    pub const ALL: [Pattern; 2] = [Pattern::CompareHalves, Pattern::BytePerPage];

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Pattern::CompareHalves => "memcmp of the halves",
            Pattern::BytePerPage => "a byte per page",
        }
    }

    /// Distance of two accesses to one half.
    pub const fn stride(self) -> u64 {
        match self {
            Pattern::CompareHalves => LINE,
            Pattern::BytePerPage => PAGE,
        }
    }

    /// Number of accesses of one round over `len` bytes.
    pub const fn accesses(self, len: u64) -> u64 {
        len / self.stride()
    }

    /// Calls `access` with each offset of one round over `len` bytes, in order.
    #[inline(always)]
    pub fn round(self, len: u64, mut access: impl FnMut(u64)) {
        let half = len / 2;
        for at in (0..half).step_by(self.stride() as usize) {
            access(at);
            access(half + at);
        }
    }
}
