//! Floor 6: the address space.
//!
//! | file | holds |
//! |---|---|
//! | `pager_conformance` | a suite that tests a pager |
//! | `ops` | the calls, one file each, with Linux's behaviour and errors |
//! | `edit` | how a writer replaces mappings and clears entries |
//! | `fault` | page faults, from the trap to the store of the entry |
//! | `pin` | pins of pages for devices |
//! | `copy` | bytes of a space, read and written by others |
//! | `walk` | scans of accessed bits, translations, call chains, without a lock: [`Walker`] |
//! | `inspect` | inspection by checkers and observers: [`Inspect`] |
//! | `fork_cursor` | how far a fork has come |
//! | `retry` | retries at a page, and what ends them |
//! | `rmap` | the reverse map: from a frame of anonymous memory to the entries that map it |
//! | `activate` | a CPU loads a space and unloads it |
//! | `spaces` | spaces by number, and handles that keep them |
//! | `object_handle` | handles that keep objects, and what a request maps of one |
//! | `vm` `options` | the state that all spaces of a machine share, and how it is made |
//! | `counters` `error` `layout` | counters, errors, the layout of a space |
//! | `tests` `models` | tests by call, models in loom |
//!
//! # Locks
//!
//! Writers, locked faults and readers lock ranges ([`RangeGuard`], [`RangeReadGuard`]; one sleeping lock is
//! behind them today). Speculative faults lock none. docs/design/locking.md has the table,
//! docs/design/fault.md the protocol of a fault.

#![forbid(unsafe_code)]

mod activate;
mod copy;
mod counters;
mod edit;
mod error;
mod fault;
mod fork_cursor;
mod inspect;
mod layout;
mod object_handle;
mod ops;
mod options;
pub mod pager_conformance;
mod pin;
mod retry;
mod rmap;
mod spaces;
mod vm;
mod walk;

pub use crate::units::SpaceId;
pub use activate::{Active, LazyTlb};
pub use counters::{Counter, Counters, Totals};
use edit::Mappings;
use edit::entries::Entries;
pub use edit::{RangeGuard, RangeReadGuard, RangeToken};
pub use error::Error;
pub use fault::{Fallback, Fault, FaultError, Outcome, Path};
pub use inspect::Inspect;
pub use layout::Layout;
pub use object_handle::{ObjectHandle, ObjectPages};
pub(in crate::space) use ops::MadeDirty;
pub use ops::{
    Advice, Collapsed, MapBacking, MapRequest, Misplaced, ObjectError, Place, RemapFlags, RemapRequest,
    ScanStep, Sharing, SyncMode, WrittenBack,
};
pub use options::VmOptions;
pub use pin::{MemlockLimit, PinBuffer, PinnedPages};
use rmap::SpaceNode;
pub use rmap::{ObjectReach, RmapEntry, RmapError, RmapFound};
pub use spaces::{SpaceHandle, Spaces};
pub use vm::Vm;
pub use walk::{CallChain, FrameRecord, Walker};

use crate::machine::Machine;
use crate::table::PageTable;
use crate::units::Pfn;
use crate::vma::HugePolicy;
use core::fmt;

/// An address space: mappings, a page table, and the CPUs that run it.
///
/// Each call is a method; what it needs of the space is handed to a value: its mappings, its entries, or
/// both.
pub struct AddressSpace<'v, M: Machine> {
    vm: &'v Vm<'v, M>,
    mappings: Mappings<'v, M>,
    entries: Entries<'v, M>,
    /// Its place in the tree of spaces, whose number the anon keys of its frames name.
    node: SpaceNode<'v, M>,
    path: Path,
}

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// An empty space.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a layout that breaks a rule of [`Layout`]; [`Error::NoMemory`] where there is
    /// none for the root table or the index.
    pub fn new(vm: &'v Vm<'v, M>, layout: Layout, path: Path) -> Result<Self, Error> {
        Self::below(vm, layout, path, None)
    }

    /// As [`new`](Self::new); in the tree of spaces below the node of the space that it is forked from.
    fn below(
        vm: &'v Vm<'v, M>,
        layout: Layout,
        path: Path,
        parent: Option<&SpaceNode<'v, M>>,
    ) -> Result<Self, Error> {
        layout.check::<M::Format>()?;
        let root = vm.retry_after_trim(|| vm.memory.alloc_table(crate::frame::Priority::Normal));
        let root = root.ok_or(Error::NoMemory)?;
        let number = vm.numbers.next();
        let node = SpaceNode::new(vm, SpaceId(number), parent).ok_or(Error::NoMemory)?;
        Ok(Self {
            vm,
            mappings: Mappings::new(vm, SpaceId(number), layout),
            entries: Entries::new(
                vm,
                PageTable::new(&vm.memory, root, &vm.rcu),
                number,
                vm.huge_policy == HugePolicy::Always,
            ),
            node,
            path,
        })
    }

    /// The state shared with all other spaces.
    pub fn vm(&self) -> &'v Vm<'v, M> {
        self.vm
    }

    /// Bounds and bases.
    pub fn layout(&self) -> &Layout {
        &self.mappings.layout
    }

    /// The frame of the root table.
    pub fn root(&self) -> Pfn {
        self.entries.table.root()
    }
}

impl<M: Machine> fmt::Debug for AddressSpace<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "space {} of {} mappings", self.entries.tlb.id(), self.mappings.vmas.len())
    }
}

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;
