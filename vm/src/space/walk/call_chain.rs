//! Call chains of the program that a CPU runs, read in a handler: for profilers.

use super::Walker;
use crate::machine::Machine;
use crate::sync::HandlerSection;
use crate::table::NotRead;
use crate::units::VirtAddr;
use core::fmt;

/// Where a function keeps what leads to its caller, as offsets from its frame pointer in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRecord {
    /// The frame pointer of the caller.
    pub caller: i64,
    /// The address to which the function returns.
    pub return_address: i64,
}

impl FrameRecord {
    /// x86-64, with `push rbp; mov rbp, rsp`: System V ABI, section 3.2.2.
    pub const X86_64: Self = Self { caller: 0, return_address: 8 };
    /// AArch64: Procedure Call Standard, section 6.4.6.
    pub const AARCH64: Self = Self { caller: 0, return_address: 8 };
    /// RISC-V: ELF psABI, the frame-pointer convention.
    pub const RISCV: Self = Self { caller: -16, return_address: -8 };
}

/// The return addresses of a program's calls, innermost first. Each is read when it is asked for.
pub struct CallChain<'a, 'v, M: Machine> {
    walker: Walker<'a, 'v, M>,
    section: &'a HandlerSection<'a, M::Cpu>,
    record: FrameRecord,
    frame_pointer: Option<VirtAddr>,
    left: usize,
}

impl<'s, 'v, M: Machine> Walker<'s, 'v, M> {
    /// The 8 bytes at the address, as the program that this CPU runs in this space would load them. Makes no
    /// page present.
    ///
    /// May be called anywhere on a CPU that has the space loaded, whatever was interrupted: a thread, a
    /// handler of interrupts, an NMI in the middle of either. Takes no lock and no reference, waits for
    /// no CPU, writes nothing that CPUs share. Interrupts are off meanwhile: what keeps the frame in place is
    /// that this CPU answers no request to flush before it has read.
    ///
    /// *What may be stale.* The word was in memory at one moment of this call, at an address that was mapped
    /// so at one moment of the call. A program writes what it likes, and so finds itself with what it wrote.
    ///
    /// # Errors
    /// [`NotRead`]; [`NotRead::NotLoaded`] on a CPU that translates through another space, or through none.
    ///
    /// # Panics
    /// If the section is one of another system.
    pub fn read_word_in_handler(
        self,
        addr: VirtAddr,
        section: &HandlerSection<'_, M::Cpu>,
    ) -> Result<u64, NotRead> {
        if !self.may_map(addr.vpn()) {
            return Err(NotRead::NotPresent);
        }
        self.entries.table.read_word_here(addr, section)
    }

    /// The return addresses of the program that this CPU runs in this space, from the function on whose frame
    /// pointer is given, `most` of them at most. Ends where a word cannot be read
    /// ([`read_word_in_handler`](Self::read_word_in_handler), in all that it says), where the next frame does
    /// not lie above the last, and at a return address of 0. (Linux: `perf_callchain_user`.)
    pub fn call_chain<'a>(
        self,
        frame_pointer: VirtAddr,
        record: FrameRecord,
        most: usize,
        section: &'a HandlerSection<'a, M::Cpu>,
    ) -> CallChain<'a, 'v, M>
    where
        's: 'a,
    {
        CallChain { walker: self, section, record, frame_pointer: Some(frame_pointer), left: most }
    }
}

impl<M: Machine> CallChain<'_, '_, M> {
    fn word(&self, frame_pointer: VirtAddr, offset: i64) -> Option<u64> {
        let addr = VirtAddr(frame_pointer.0.checked_add_signed(offset)?);
        self.walker.read_word_in_handler(addr, self.section).ok()
    }
}

impl<M: Machine> Iterator for CallChain<'_, '_, M> {
    type Item = VirtAddr;

    fn next(&mut self) -> Option<VirtAddr> {
        let at = self.frame_pointer.take()?;
        self.left = self.left.checked_sub(1)?;
        let return_address = self.word(at, self.record.return_address)?;
        let caller = self.word(at, self.record.caller);
        // Stacks grow down: a chain that does not go up is none, and may be a circle.
        let goes_up = |caller: &u64| *caller > at.0 || mutant!("call-chain.circle-followed");
        self.frame_pointer = caller.filter(goes_up).map(VirtAddr);
        (return_address != 0).then_some(VirtAddr(return_address))
    }
}

impl<M: Machine> fmt::Debug for CallChain<'_, '_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call chain at {:?}, {} calls at most", self.frame_pointer, self.left)
    }
}
