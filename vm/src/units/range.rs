//! Half-open ranges of pages and frames.

use super::{PAGE_SIZE, Pfn, VirtAddr, Vpn};

macro_rules! number_range {
    ($(#[$doc:meta])* $name:ident, $number:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
        pub struct $name {
            /// First number in the range.
            pub start: $number,
            /// First number after the range. The range is empty if it is not above `start`.
            pub end: $number,
        }

        impl $name {
            /// The range from `start` up to but without `end`; empty if `end` lies below `start`.
            pub const fn new(start: $number, end: $number) -> Self {
                let end = if end.0 < start.0 { start } else { end };
                Self { start, end }
            }
            /// Number of elements.
            pub const fn len(self) -> u64 {
                self.end.0.saturating_sub(self.start.0)
            }
            /// Whether the range has no elements.
            pub const fn is_empty(self) -> bool {
                self.end.0 <= self.start.0
            }
            /// Whether `n` lies in the range.
            pub const fn contains(self, n: $number) -> bool {
                self.start.0 <= n.0 && n.0 < self.end.0
            }
            /// Whether all of `other` lies in the range, from its start to its end even where it is empty.
            pub const fn covers(self, other: Self) -> bool {
                self.start.0 <= other.start.0 && other.end.0 <= self.end.0
            }
            /// Whether the two ranges overlap.
            pub const fn overlaps(self, other: Self) -> bool {
                let start = if self.start.0 < other.start.0 { other.start.0 } else { self.start.0 };
                let end = if self.end.0 < other.end.0 { self.end.0 } else { other.end.0 };
                start < end
            }
            /// The intersection, which may be empty.
            pub fn intersect(self, other: Self) -> Self {
                Self::new(self.start.max(other.start), self.end.min(other.end))
            }
        }
    };
}

number_range! {
    /// A half-open range of pages.
    VpnRange, Vpn
}

number_range! {
    /// A half-open range of frames.
    PfnRange, Pfn
}

impl VpnRange {
    /// The pages of `len_bytes` bytes from `start`, the length rounded up to whole pages as Linux's calls do.
    /// `None` if the start is unaligned or the end overflows.
    pub const fn from_bytes(start: VirtAddr, len_bytes: u64) -> Option<Self> {
        if !start.is_page_aligned() {
            return None;
        }
        let mask = PAGE_SIZE as u64 - 1;
        let Some(up) = len_bytes.checked_add(mask) else { return None };
        match start.0.checked_add(up & !mask) {
            Some(end) => Some(Self { start: start.vpn(), end: VirtAddr(end).vpn() }),
            None => None,
        }
    }
    /// Bytes in the range; saturates.
    pub const fn len_bytes(self) -> u64 {
        self.len().saturating_mul(PAGE_SIZE as u64)
    }
}
