//! What user code does on a software machine: instructions that touch memory through the TLB, and fault.
//!
//! An *instruction* is a translation and the use of what it found. An interrupt comes between instructions,
//! never within one, so the frame that was found stays in place until the use is over: a CPU that wants to
//! free it waits for this CPU's acknowledgement. Flavours that let other CPUs run in the middle of an
//! instruction therefore have interrupts off in it.

use super::device;
use super::flavour::Flavour;
use super::machine::SoftMachine;
use super::tlb::Tlb;
use super::walker::{is_canonical, walk, walk_shared};
use interleaf::frame::FrameRef;
use interleaf::machine::{AccessKind, Format, Machine};
use interleaf::sync::with_interrupts_off;
use interleaf::units::{Access, PAGE_SIZE, Pfn, PhysAddr, Rights, VirtAddr};
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// Why an instruction was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Signal {
    /// No mapping allows the access, or the address is not canonical.
    Segv,
    /// A mapping allows it, but there is nothing behind it.
    Bus,
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Signal::Segv => "SIGSEGV",
            Signal::Bus => "SIGBUS",
        })
    }
}

impl std::error::Error for Signal {}

/// What resolves page faults: an address space.
pub trait FaultHandler {
    /// Makes the access possible, or says that it is not. Afterwards the instruction runs again.
    ///
    /// # Errors
    /// The signal that the access ends in.
    fn fault(&self, addr: VirtAddr, access: Access) -> Result<(), Signal>;
}

impl<T: Fn(VirtAddr, Access) -> Result<(), Signal>> FaultHandler for T {
    fn fault(&self, addr: VirtAddr, access: Access) -> Result<(), Signal> {
        self(addr, access)
    }
}

/// Number of faults after which an instruction is given up.
const MOST_FAULTS: u32 = 100_000;

impl<C: Flavour, F: Format> SoftMachine<C, F> {
    /// Translates an address for user code, faulting as often as it takes. The byte found is this
    /// instruction's: it stays in place until the thread makes the next access, relaxes, sleeps or leaves the
    /// CPU.
    ///
    /// # Errors
    /// The signal that the fault handler answers, or `Segv` for an address that no format could map.
    #[inline]
    pub fn access(
        &self,
        addr: VirtAddr,
        access: Access,
        faults: &impl FaultHandler,
    ) -> Result<NonNull<u8>, Signal> {
        self.instruction(addr, access, faults, |at| at)
    }

    /// Loads one byte, or stores `store` there and gives that back. `look` is called with the physical
    /// address that `addr` translates to, which stays this page's until the instruction is over. It must not
    /// wait for another CPU.
    ///
    /// # Errors
    /// As [`access`](Self::access).
    #[inline]
    #[track_caller]
    pub fn touch_looked_at(
        &self,
        addr: VirtAddr,
        access: Access,
        store: Option<u8>,
        faults: &impl FaultHandler,
        mut look: impl FnMut(PhysAddr),
    ) -> Result<u8, Signal> {
        self.instruction(addr, access, faults, |at| {
            look(self.phys_of(at));
            self.seen(at, 1, if store.is_some() { AccessKind::Store } else { AccessKind::Load });
            // SAFETY: as in `touch`.
            let byte = unsafe { AtomicU8::from_ptr(at.as_ptr()) };
            match store {
                Some(value) => {
                    byte.store(value, Relaxed);
                    value
                }
                None => byte.load(Relaxed),
            }
        })
    }

    /// Zeroes a frame of user memory as a device does, whatever CPUs do with it meanwhile.
    pub fn zero_user(&self, frame: &FrameRef<'_, Self>) {
        let at = self.block(frame.pfn().addr(), PAGE_SIZE, AccessKind::Write);
        // SAFETY: the frame lies in the arena, and is user memory as long as there is a reference to it: no
        // Rust code borrows from that, and programs reach it by atomics.
        unsafe { device::zero(at, PAGE_SIZE) };
    }

    /// Copies a frame of user memory to another as a device does, whatever CPUs do with them meanwhile.
    pub fn copy_user(&self, from: &FrameRef<'_, Self>, to: &FrameRef<'_, Self>) {
        let source = self.block(from.pfn().addr(), PAGE_SIZE, AccessKind::Read);
        let target = self.block(to.pfn().addr(), PAGE_SIZE, AccessKind::Write);
        // SAFETY: both frames lie in the arena, and are user memory as long as there are references to them:
        // no Rust code borrows from that, and programs reach it by atomics.
        unsafe { device::copy(source, target, PAGE_SIZE) };
    }

    /// Loads 8 bytes, aligned to 8.
    ///
    /// # Errors
    /// As [`access`](Self::access).
    #[inline]
    #[track_caller]
    pub fn read_u64(&self, addr: VirtAddr, faults: &impl FaultHandler) -> Result<u64, Signal> {
        assert!(addr.0.is_multiple_of(8));
        self.instruction(addr, Access::Read, faults, |at| {
            self.seen(at, 8, AccessKind::Load);
            // SAFETY: 8 aligned bytes of a frame of the arena; user memory is reached by atomics here, and
            // the library only touches it otherwise before it is mapped.
            unsafe { AtomicU64::from_ptr(at.cast().as_ptr()) }.load(Relaxed)
        })
    }

    /// Stores 8 bytes, aligned to 8.
    ///
    /// # Errors
    /// As [`access`](Self::access).
    #[inline]
    #[track_caller]
    pub fn write_u64(&self, addr: VirtAddr, value: u64, faults: &impl FaultHandler) -> Result<(), Signal> {
        assert!(addr.0.is_multiple_of(8));
        self.instruction(addr, Access::Write, faults, |at| {
            self.seen(at, 8, AccessKind::Store);
            // SAFETY: as in `read_u64`.
            unsafe { AtomicU64::from_ptr(at.cast().as_ptr()) }.store(value, Relaxed);
        })
    }

    /// Touches one byte: loads it, or stores what it holds. As with any program's plain store, another store
    /// to that byte at the same time may be lost.
    ///
    /// # Errors
    /// As [`access`](Self::access).
    #[inline]
    #[track_caller]
    pub fn touch(&self, addr: VirtAddr, access: Access, faults: &impl FaultHandler) -> Result<u8, Signal> {
        self.instruction(addr, access, faults, |at| {
            let kind = if access == Access::Write { AccessKind::Store } else { AccessKind::Load };
            self.seen(at, 1, kind);
            // SAFETY: a byte of a frame of the arena; as in `read_u64`.
            let byte = unsafe { AtomicU8::from_ptr(at.as_ptr()) };
            let value = byte.load(Relaxed);
            if access == Access::Write {
                byte.store(value, Relaxed);
            }
            value
        })
    }

    /// Loads bytes, one instruction for each page.
    ///
    /// # Errors
    /// As [`access`](Self::access); bytes before the failing page have been read.
    pub fn read_bytes(
        &self,
        addr: VirtAddr,
        to: &mut [u8],
        faults: &impl FaultHandler,
    ) -> Result<(), Signal> {
        let mut at = addr;
        for chunk in pieces_mut(addr, to) {
            self.instruction(at, Access::Read, faults, |from| {
                self.seen(from, chunk.len(), AccessKind::Load);
                for (i, byte) in chunk.iter_mut().enumerate() {
                    // SAFETY: the piece ends with its page; as in `touch`.
                    *byte = unsafe { AtomicU8::from_ptr(from.add(i).as_ptr()) }.load(Relaxed);
                }
            })?;
            at = VirtAddr(at.0.wrapping_add(chunk.len() as u64));
        }
        Ok(())
    }

    /// Stores bytes, one instruction for each page.
    ///
    /// # Errors
    /// As [`access`](Self::access); bytes before the failing page have been written.
    pub fn write_bytes(&self, addr: VirtAddr, from: &[u8], faults: &impl FaultHandler) -> Result<(), Signal> {
        let (mut at, mut rest) = (addr, from);
        while !rest.is_empty() {
            let (piece, next) = rest.split_at(rest.len().min(PAGE_SIZE - at.offset()));
            self.instruction(at, Access::Write, faults, |to| {
                self.seen(to, piece.len(), AccessKind::Store);
                for (i, &byte) in piece.iter().enumerate() {
                    // SAFETY: the piece ends with its page; as in `touch`.
                    unsafe { AtomicU8::from_ptr(to.add(i).as_ptr()) }.store(byte, Relaxed);
                }
            })?;
            at = VirtAddr(at.0.wrapping_add(piece.len() as u64));
            rest = next;
        }
        Ok(())
    }

    /// One instruction, restarted after each fault.
    #[inline]
    fn instruction<R>(
        &self,
        addr: VirtAddr,
        access: Access,
        faults: &impl FaultHandler,
        mut use_it: impl FnMut(NonNull<u8>) -> R,
    ) -> Result<R, Signal> {
        for _ in 0..MOST_FAULTS {
            C::boundary();
            if let Some(result) = self.attempt(addr, access, &mut use_it) {
                return Ok(result);
            }
            if !is_canonical::<F>(addr) {
                return Err(Signal::Segv);
            }
            faults.fault(addr, access)?;
        }
        panic!("{addr:?} faults for ever: the handler says done and the access is not allowed");
    }

    /// One attempt at an instruction; `None` is a page fault.
    #[inline]
    fn attempt<R>(
        &self,
        addr: VirtAddr,
        access: Access,
        use_it: &mut impl FnMut(NonNull<u8>) -> R,
    ) -> Option<R> {
        if !C::OBSERVED {
            return self.translate(addr, access).map(use_it);
        }
        with_interrupts_off::<C, _>(|| self.translate(addr, access).map(use_it))
    }

    #[inline]
    fn translate(&self, addr: VirtAddr, access: Access) -> Option<NonNull<u8>> {
        self.with_mmu(|root, tlb| {
            let at = tlb.hit(addr, access);
            Some(self.window(at.or_else(|| self.miss(root, tlb, addr, access))?))
        })
    }

    /// Walks, and fills the TLB. Where the walk ends in a fault, what the TLB knew of the page is dropped;
    /// where the format says that refusals are remembered, it is kept, and asked before the tables.
    #[inline(never)]
    fn miss(&self, root: Option<Pfn>, tlb: &mut Tlb, addr: VirtAddr, access: Access) -> Option<PhysAddr> {
        let (root, vpn) = (root?, addr.vpn());
        if !is_canonical::<F>(addr) || F::REMEMBERS_REFUSALS && tlb.refuses(vpn, access) {
            return None;
        }
        let found = match tlb.shared_table_for(vpn) {
            Some((table, rights)) => walk_shared(self, table, rights, vpn, access),
            None => {
                let from = tlb.table_for(vpn).unwrap_or((F::ROOT, root));
                let upper = |level, table, allowed: Option<Rights>| match allowed {
                    None => tlb.insert_table(level, vpn, table),
                    Some(rights) => tlb.insert_shared_table(vpn, table, rights),
                };
                walk(self, from, vpn, access, upper)
            }
        };
        let Some(page) = found else {
            tlb.forget(vpn);
            return None;
        };
        debug_assert!(page.rights.contains(Rights::USER));
        if let Some(violation) = tlb.insert(page) {
            self.report(violation);
        }
        Some(PhysAddr(page.pfn.addr().0 | (addr.0 & (page.size.bytes() - 1))))
    }

    #[inline(always)]
    #[track_caller]
    fn seen(&self, at: NonNull<u8>, len_bytes: usize, kind: AccessKind) {
        if C::OBSERVED {
            C::access(at.addr().get(), len_bytes, kind);
        }
    }
}

/// Cuts a buffer for `addr` at page boundaries.
fn pieces_mut(addr: VirtAddr, buffer: &mut [u8]) -> impl Iterator<Item = &mut [u8]> {
    let first = buffer.len().min(PAGE_SIZE - addr.offset());
    let (head, tail) = buffer.split_at_mut(first);
    std::iter::once(head).chain(tail.chunks_mut(PAGE_SIZE)).filter(|piece| !piece.is_empty())
}
