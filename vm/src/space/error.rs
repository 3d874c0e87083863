//! Why a call was refused, in Linux's terms.

use core::fmt;

/// The error of a memory call, with the number that Linux has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Error {
    /// An invalid argument: `EINVAL`.
    Invalid,
    /// No memory, no room in the address space, too many mappings, or a hole in the range: `ENOMEM`.
    NoMemory,
    /// A mapping exists where none may be: `EEXIST`.
    Exists,
    /// The address is one that the caller may not map: `EPERM`.
    NotPermitted,
    /// The mapping does not allow it: `EACCES`.
    Access,
    /// An address where nothing is mapped, or a page that cannot be made present: `EFAULT`.
    Fault,
    /// Try again: `EAGAIN`.
    Again,
    /// A page lies on a node that its memory policy does not name: `EIO`.
    Misplaced,
    /// The memory is locked: `EBUSY`.
    Busy,
    /// A page of an object could not be written back: `EIO`.
    Io,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::Invalid => "invalid argument",
            Error::NoMemory => "out of memory, of address space or of mappings, or a hole in the range",
            Error::Exists => "something is mapped there",
            Error::NotPermitted => "that address may not be mapped",
            Error::Access => "the mapping does not allow it",
            Error::Fault => "bad address",
            Error::Again => "try again",
            Error::Misplaced => "a page lies on another node",
            Error::Busy => "the memory is locked",
            Error::Io => "a page could not be written back",
        })
    }
}

impl core::error::Error for Error {}
