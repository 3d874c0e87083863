//! What an RCU keeps for each CPU: its read sections, and its garbage.

use super::garbage::Garbage;
use super::guard::Reader;
use super::limits::GarbageLimits;
use crate::machine::Cpu;
use crate::sync::CacheAligned;
use crate::sync::asymmetric::AsymmetricCell;
use crate::sync::atomic::AtomicU64;

/// The data of one CPU.
pub(super) struct Local<C: Cpu> {
    /// What its read sections write.
    pub(super) reader: CacheAligned<Reader<C>>,
    own: CacheAligned<OwnGarbage<C>>,
}

/// A CPU's garbage. The words that each retirement writes come first, on one line.
#[repr(C)]
pub(super) struct OwnGarbage<C: Cpu> {
    /// Objects in `garbage`, for other CPUs to read. Written by the CPU that uses `garbage`.
    pub(super) count: AtomicU64<C>,
    /// Number of batches of objects that this CPU has begun and ended to free: odd while it is at one.
    /// Written by this CPU alone. Released at the end of a batch.
    pub(super) batches: AtomicU64<C>,
    /// Another CPU may revoke it, which holds `Rcu::advance`.
    garbage: AsymmetricCell<Garbage, C>,
}

impl<C: Cpu> core::ops::Deref for Local<C> {
    type Target = OwnGarbage<C>;
    fn deref(&self) -> &OwnGarbage<C> {
        &self.own
    }
}

impl<C: Cpu> Local<C> {
    /// No reader, and no garbage.
    pub(super) fn new(limits: GarbageLimits) -> Self {
        Self {
            reader: CacheAligned(Reader::new()),
            own: CacheAligned(OwnGarbage {
                count: AtomicU64::new(0),
                batches: AtomicU64::new(0),
                garbage: AsymmetricCell::new(Garbage::new(limits)),
            }),
        }
    }
}

/// The garbage of a CPU.
pub(super) fn garbage_of<C: Cpu>(local: &Local<C>) -> &AsymmetricCell<Garbage, C> {
    &local.own.0.garbage
}
