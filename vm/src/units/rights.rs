//! Rights of a mapping, kinds of access.

bitflags::bitflags! {
    /// Rights of a mapping or a leaf: the accesses that the hardware allows without a fault.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct Rights: u8 {
        /// Loads are allowed.
        const READ = 1;
        /// Stores are allowed.
        const WRITE = 2;
        /// Instructions may be fetched.
        const EXECUTE = 4;
        /// Code outside the kernel (ring 3, EL0) may use the other rights.
        const USER = 8;
    }
}

/// The kind of an access to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// A load.
    Read,
    /// A store, or a load that is going to store.
    Write,
    /// An instruction fetch.
    Execute,
}

impl Access {
    /// The right that this access needs.
    pub const fn needs(self) -> Rights {
        match self {
            Access::Read => Rights::READ,
            Access::Write => Rights::WRITE,
            Access::Execute => Rights::EXECUTE,
        }
    }
}
