//! Calls about the one file itself, and not about a mapping of it: its length, holes, its bytes.

use super::calls::CallResult;
use std::fmt;

/// A call about the file. Offsets and lengths are in bytes, raw.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum FileCall {
    /// `ftruncate(file, len)`.
    Truncate {
        /// Bytes.
        len: u64,
    },
    /// `fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, len)`.
    PunchHole {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// `pread(file, len, offset)`.
    Read {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// `pwrite(file, len, offset)` of equal bytes.
    Write {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
        /// What each is.
        value: u8,
    },
}

/// Most bytes that one call reads or writes.
pub const MOST_BYTES: u64 = 4 * super::calls::PAGE;

impl FileCall {
    /// Whether it moves no more bytes than there is room for.
    #[must_use]
    pub fn is_small(self) -> bool {
        match self {
            Self::Truncate { .. } | Self::PunchHole { .. } => true,
            Self::Read { len, .. } | Self::Write { len, .. } => len <= MOST_BYTES,
        }
    }

    /// The same call, of fewer bytes.
    #[cfg(feature = "experiments")]
    pub(super) fn with_len(self, len: u64) -> Self {
        match self {
            Self::Truncate { .. } => Self::Truncate { len },
            Self::PunchHole { offset, .. } => Self::PunchHole { offset, len },
            Self::Read { offset, .. } => Self::Read { offset, len },
            Self::Write { offset, value, .. } => Self::Write { offset, len, value },
        }
    }

    /// Its length.
    #[cfg(feature = "experiments")]
    pub(super) fn len(self) -> u64 {
        match self {
            Self::Truncate { len }
            | Self::PunchHole { len, .. }
            | Self::Read { len, .. }
            | Self::Write { len, .. } => len,
        }
    }
}

impl CallResult {
    /// The answer to a read that gave these bytes.
    #[must_use]
    pub fn data(bytes: &[u8]) -> Self {
        Self::Data(bytes.len(), super::calls::fingerprint(bytes))
    }
}

impl fmt::Display for FileCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncate { len } => write!(f, "ftruncate(file, {len:#x});"),
            Self::PunchHole { offset, len } => write!(f, "punch_hole(file, {offset:#x}, {len:#x});"),
            Self::Read { offset, len } => write!(f, "pread(file, {len:#x}, {offset:#x});"),
            Self::Write { offset, len, value } => {
                write!(f, "pwrite(file, {value} * {len:#x}, {offset:#x});")
            }
        }
    }
}
