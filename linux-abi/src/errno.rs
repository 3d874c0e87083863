//! Error numbers.

use core::fmt;
use interleaf::space::{Error, ObjectError};
use linux_raw_sys::errno as raw;

/// A Linux error number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        impl Errno {
            $($(#[$doc])* pub const $name: Self = Self(raw::$name as i32);)*

            /// Its name, if it is listed here.
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

numbers! {
    /// Operation not permitted.
    EPERM,
    /// No such file.
    ENOENT,
    /// No child processes.
    ECHILD,
    /// No such process.
    ESRCH,
    /// Input or output error; of `mbind`: a page lies elsewhere.
    EIO,
    /// Bad file descriptor.
    EBADF,
    /// Try again.
    EAGAIN,
    /// Out of memory, or nothing is mapped there.
    ENOMEM,
    /// Permission denied.
    EACCES,
    /// Bad address.
    EFAULT,
    /// The memory is locked, or in use.
    EBUSY,
    /// The address is in use already.
    EEXIST,
    /// No folder.
    ENOTDIR,
    /// Invalid argument.
    EINVAL,
    /// Too many open files.
    EMFILE,
    /// A file cannot be as long.
    EFBIG,
    /// Function not implemented.
    ENOSYS,
    /// Operation not supported.
    EOPNOTSUPP,
    /// Connection timed out; the error of every wait that has a deadline.
    ETIMEDOUT,
}

impl Errno {
    /// The return value of a system call for it.
    pub const fn as_return_value(self) -> i64 {
        -(self.0 as i64)
    }
}

impl From<Error> for Errno {
    #[inline]
    fn from(error: Error) -> Self {
        match error {
            Error::Invalid => Self::EINVAL,
            Error::NoMemory => Self::ENOMEM,
            Error::Exists => Self::EEXIST,
            Error::NotPermitted => Self::EPERM,
            Error::Access => Self::EACCES,
            Error::Fault => Self::EFAULT,
            Error::Again => Self::EAGAIN,
            Error::Busy => Self::EBUSY,
            Error::Misplaced | Error::Io => Self::EIO,
            // Errors of later versions.
            _ => Errno::EINVAL,
        }
    }
}

impl From<ObjectError> for Errno {
    fn from(error: ObjectError) -> Self {
        match error {
            ObjectError::NoMemory => Self::ENOMEM,
            ObjectError::TooLong => Self::EFBIG,
            ObjectError::Sealed => Self::EPERM,
            ObjectError::Stalled => Self::EAGAIN,
            // I/O errors, and those of later versions.
            _ => Self::EIO,
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl core::error::Error for Errno {}
