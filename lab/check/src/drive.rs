//! Memory calls executed by the library, on an address space that the calling CPU runs.

use super::calls::{Call, CallResult, Errno, PAGE, Segv, number};
use interleaf::frame::Kind;
use interleaf::machine::{Format, Machine};
use interleaf::space::{AddressSpace, Error, Fault, FaultError, SpaceId};
use interleaf::units::{Access, Order, Pfn, PhysAddr, VirtAddr};
use interleaf_lab::machine::soft::{FaultHandler, Flavour, Signal, SoftMachine};
use interleaf_linux_abi as linux;
use std::cell::Cell;

/// A space on a machine, driven by the calling CPU.
pub struct Driver<'a, 'v, C: Flavour, F: Format> {
    /// The machine.
    pub machine: &'a SoftMachine<C, F>,
    /// The space, which the calling CPU runs.
    pub space: &'a AddressSpace<'v, SoftMachine<C, F>>,
}

impl<C: Flavour, F: Format> Clone for Driver<'_, '_, C, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C: Flavour, F: Format> Copy for Driver<'_, '_, C, F> {}

/// A space as the machine's fault handler; notes why a fault was refused.
pub struct Faults<'a, 'v, M: Machine> {
    space: &'a AddressSpace<'v, M>,
    why: Cell<Option<FaultError>>,
}

impl<'a, 'v, M: Machine> Faults<'a, 'v, M> {
    /// No fault yet.
    pub fn new(space: &'a AddressSpace<'v, M>) -> Self {
        Self { space, why: Cell::new(None) }
    }

    /// Why the last refused fault was refused.
    pub fn why(&self) -> Option<FaultError> {
        self.why.get()
    }
}

impl<M: Machine> FaultHandler for Faults<'_, '_, M> {
    fn fault(&self, addr: VirtAddr, access: Access) -> Result<(), Signal> {
        self.space.fault(Fault { addr, access }).map(drop).map_err(|error| {
            self.why.set(Some(error));
            if matches!(error, FaultError::NoMemory | FaultError::HugetlbEmpty | FaultError::Beyond) {
                Signal::Bus
            } else {
                Signal::Segv
            }
        })
    }
}

impl<'a, 'v, C: Flavour, F: Format> Driver<'a, 'v, C, F> {
    /// Executes one call and returns its result.
    pub fn call(&self, call: &Call) -> CallResult {
        let value = |done: Result<u64, Errno>| done.map_or_else(CallResult::Error, CallResult::Value);
        let space = self.space;
        match *call {
            Call::Mmap { hint, len, prot, flags } => {
                let words = [hint, len, prot.bits().into(), flags.bits().into(), u64::MAX, 0];
                value(linux::mmap(space, words).map(|addr| addr.0))
            }
            Call::Words { number, words } => value(self.words(number, words)),
            Call::Munmap { addr, len } => value(linux::munmap(space, addr, len).map(|()| 0)),
            Call::Mremap { addr, old_len, new_len, flags, to } => {
                value(linux::mremap(space, [addr, old_len, new_len, flags, to]).map(|addr| addr.0))
            }
            Call::Mprotect { addr, len, prot } => {
                value(linux::mprotect(space, addr, len, prot.bits().into()).map(|()| 0))
            }
            Call::Madvise { addr, len, advice } => {
                value(linux::madvise(space, addr, len, advice).map(|()| 0))
            }
            Call::Mbind { addr, len, mode, nodes, flags } => {
                value(linux::mbind(space, addr, len, mode, || Ok(nodes), flags).map(|()| 0))
            }
            Call::Msync { addr, len, flags } => {
                value(linux::msync(space, addr, len, flags, |id| self.itself(id)).map(|()| 0))
            }
            // There is none without a file: `call_with_file`.
            Call::File(_) => CallResult::Error(Errno::EBADF),
            Call::Brk { addr } => CallResult::Value(linux::brk(space, addr)),
            Call::Mincore { addr, len } => self.mincore(addr, len),
            Call::Read { addr } => self.access(addr, Access::Read, None),
            Call::Write { addr, value } => self.access(addr, Access::Write, Some(value)),
        }
    }

    fn words(&self, number: u64, words: [u64; 6]) -> Result<u64, Errno> {
        let [addr, len, third, ..] = words;
        match number {
            number::MMAP => linux::mmap(self.space, words).map(|addr| addr.0),
            number::MPROTECT => linux::mprotect(self.space, addr, len, third).map(|()| 0),
            number::MADVISE => linux::madvise(self.space, addr, len, third as i32).map(|()| 0),
            _ => Err(Errno::ENOSYS),
        }
    }

    /// The space, if it has the number.
    fn itself(&self, id: SpaceId) -> Option<&'a AddressSpace<'v, SoftMachine<C, F>>> {
        (self.space.id() == id).then_some(self.space)
    }

    /// A forced store of another process to the space.
    pub fn force(&self, addr: u64, value: u8) -> CallResult {
        match self.space.copy_to_forced(VirtAddr(addr), &[value]) {
            Ok(_) => CallResult::Written,
            Err(error) => CallResult::Error(error.into()),
        }
    }

    fn mincore(&self, addr: u64, len: u64) -> CallResult {
        let mut bytes = Vec::new();
        match self.space.mincore(VirtAddr(addr), len, |_, resident| bytes.push(u8::from(resident))) {
            Ok(()) => CallResult::Resident(bytes, None),
            Err(Error::NoMemory) if self.leaves_user_space(addr, len) => CallResult::Error(Errno::ENOMEM),
            Err(Error::NoMemory) => CallResult::Resident(bytes, Some(Errno::ENOMEM)),
            Err(error) => CallResult::Error(error.into()),
        }
    }

    fn leaves_user_space(&self, addr: u64, len: u64) -> bool {
        let end = self.space.layout().areas.user.end.0 * PAGE;
        addr.checked_add(len).is_none_or(|after| after > end)
    }

    /// One load or store of a byte. The frame it goes to is looked at while the instruction lasts.
    fn access(&self, addr: u64, access: Access, store: Option<u8>) -> CallResult {
        let faults = Faults::new(self.space);
        let look = |at| self.audit(at, access);
        let done = self.machine.touch_looked_at(VirtAddr(addr), access, store, &faults, look);
        match (done, access, faults.why()) {
            (Ok(_), Access::Write, _) => CallResult::Written,
            (Ok(byte), ..) => CallResult::Byte(byte),
            (Err(_), _, Some(FaultError::NotAllowed)) => CallResult::Segv(Segv::Rights),
            (Err(_), _, Some(FaultError::NoMemory)) => CallResult::Error(Errno::ENOMEM),
            (Err(_), _, Some(FaultError::Beyond)) => CallResult::Bus,
            (Err(_), ..) => CallResult::Segv(Segv::Unmapped),
        }
    }

    /// User code never reaches a frame that is not user memory at that moment, nor writes the zero page.
    fn audit(&self, at: PhysAddr, access: Access) {
        let memory = self.space.vm().memory();
        let state = |pfn| memory.meta(pfn).map(|meta| meta.state());
        // A frame inside of a huge page says nothing: its head does.
        let head = || state(Pfn(at.pfn().0 & !(Order::HUGE.frames() - 1)));
        let whole = head().filter(|state| state.order() == Order::HUGE);
        let mut kind = whole.or_else(|| state(at.pfn())).map(|state| state.kind());
        // Nor does one of a split block that becomes whole again at this moment.
        if kind == Some(Kind::Reserved) {
            kind = head().map(|state| state.kind()).filter(|kind| *kind == Kind::User);
        }
        let sound = match kind {
            Some(Kind::User | Kind::Object) => true,
            Some(Kind::Zero) => access != Access::Write,
            _ => false,
        };
        assert!(sound, "user code reaches {:?}, which is {kind:?}, to {access:?}", at.pfn());
    }
}

/// All unordered pairs of what two CPUs can do, of any kind of memory, an operation with itself among them.
pub(crate) fn unordered<T: Copy>(every: &[T]) -> impl Iterator<Item = (T, T)> + '_ {
    (0..every.len()).flat_map(move |a| every[a..].iter().map(move |&b| (every[a], b)))
}
