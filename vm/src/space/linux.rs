//! Linux's system calls for anonymous memory, with Linux's numbers: untrusted words in, errors in Linux's
//! order out.
//!
//! Numbers: `include/uapi/asm-generic/mman*.h`, `arch/x86/include/uapi/asm/mman.h`, `mempolicy.h`. What a
//! word may not be is refused here, in the order in which Linux looks at it; everything else is
//! [`AddressSpace`]'s.

use super::{AddressSpace, Advice, Error, MapRequest, Place, Sharing};
use crate::machine::Machine;
use crate::units::{NodeId, PAGE_SIZE, VirtAddr};
use crate::vma::{FlagAdvice, Policy, VmaFlags};

const MPOL_DEFAULT: u32 = 0;
const MPOL_PREFERRED: u32 = 1;
const MPOL_BIND: u32 = 2;
const MPOL_INTERLEAVE: u32 = 3;
const MPOL_LOCAL: u32 = 4;

const PROT_SEM: u32 = 0x8;
const PROT_GROWSDOWN: u32 = 0x0100_0000;
const PROT_GROWSUP: u32 = 0x0200_0000;

const MAP_TYPE: u32 = 0xf;
const MAP_SHARED: u32 = 0x1;
const MAP_PRIVATE: u32 = 0x2;
const MAP_FIXED: u32 = 0x10;
const MAP_32BIT: u32 = 0x40;
const MAP_NORESERVE: u32 = 0x4000;
const MAP_POPULATE: u32 = 0x8000;
const MAP_STACK: u32 = 0x2_0000;
const MAP_FIXED_NOREPLACE: u32 = 0x10_0000;

/// The access rights among the bits of a `prot` word.
fn access(prot: u32) -> VmaFlags {
    VmaFlags::from_bits_truncate(prot) & VmaFlags::ACCESS
}

/// `mmap(addr, len, prot, flags | MAP_ANONYMOUS, -1, 0)`.
///
/// # Errors
/// As [`AddressSpace::map`]; and [`Error::Invalid`] where the flags say neither shared nor private.
pub fn mmap<M: Machine>(
    space: &AddressSpace<'_, M>,
    addr: u64,
    len_bytes: u64,
    prot: u32,
    flags: u32,
) -> Result<VirtAddr, Error> {
    let has = |flag| flags & flag != 0;
    let at = VirtAddr(addr);
    let place = match () {
        () if has(MAP_FIXED_NOREPLACE) => Place::FixedNoReplace(at),
        () if has(MAP_FIXED) => Place::Fixed(at),
        () if has(MAP_32BIT) => Place::Low(at),
        () => Place::Hint(at),
    };
    let mut wanted = access(prot);
    wanted.set(VmaFlags::NORESERVE, has(MAP_NORESERVE));
    wanted.set(VmaFlags::NO_HUGE_PAGE, has(MAP_STACK));
    let sharing = match flags & MAP_TYPE {
        MAP_SHARED => Some(Sharing::Shared),
        MAP_PRIVATE => Some(Sharing::Private),
        _ => None,
    };
    let request = MapRequest {
        place,
        len_bytes,
        flags: wanted,
        sharing: sharing.unwrap_or(Sharing::Private),
        populate: has(MAP_POPULATE),
    };
    if sharing.is_none() {
        // Linux finds the place first, and what is wrong with that comes first.
        return space.choose_place(&request).and(Err(Error::Invalid));
    }
    space.map(&request)
}

/// `munmap(addr, len)`.
///
/// # Errors
/// As [`AddressSpace::unmap`].
pub fn munmap<M: Machine>(space: &AddressSpace<'_, M>, addr: u64, len_bytes: u64) -> Result<(), Error> {
    space.unmap(VirtAddr(addr), len_bytes)
}

/// `mprotect(addr, len, prot)`.
///
/// # Errors
/// As [`AddressSpace::protect`]; and [`Error::Invalid`] for unknown rights, or growing ones where nothing
/// grows.
pub fn mprotect<M: Machine>(
    space: &AddressSpace<'_, M>,
    addr: u64,
    len_bytes: u64,
    prot: u32,
) -> Result<(), Error> {
    const GROWS: u32 = PROT_GROWSDOWN | PROT_GROWSUP;
    if prot & GROWS == GROWS || !addr.is_multiple_of(PAGE_SIZE as u64) {
        return Err(Error::Invalid);
    }
    if len_bytes == 0 {
        return Ok(());
    }
    let rounded = len_bytes.checked_next_multiple_of(PAGE_SIZE as u64);
    rounded.and_then(|len| addr.checked_add(len)).ok_or(Error::NoMemory)?;
    if prot & !(GROWS | PROT_SEM | VmaFlags::ACCESS.bits()) != 0 {
        return Err(Error::Invalid);
    }
    if prot & GROWS != 0 {
        let seen = if prot & PROT_GROWSDOWN != 0 { len_bytes } else { 1 };
        let mapped = space.is_any_mapped(VirtAddr(addr), seen);
        return Err(if mapped { Error::Invalid } else { Error::NoMemory });
    }
    space.protect(VirtAddr(addr), len_bytes, access(prot))
}

/// The policy that a mode of `mbind` and the bits of its nodes mean.
pub fn policy(mode: u32, nodes: u64) -> Option<Policy> {
    match (mode, nodes) {
        (MPOL_DEFAULT | MPOL_LOCAL, 0) | (MPOL_PREFERRED, 0) => Some(Policy::LOCAL),
        (MPOL_PREFERRED, _) => Policy::preferred(NodeId(nodes.trailing_zeros())),
        (MPOL_BIND, _) => Policy::bind(nodes),
        (MPOL_INTERLEAVE, _) => Policy::interleave(nodes),
        _ => None,
    }
}

/// `mbind(addr, len, mode, nodes, ..., flags)`; `nodes` is the first word of the mask. Pages that are present
/// stay where they are: the flags that would move or judge them are refused.
///
/// # Errors
/// As [`AddressSpace::set_policy`]; and [`Error::Invalid`] for unknown modes, flags, and nodes that do not go
/// with the mode.
pub fn mbind<M: Machine>(
    space: &AddressSpace<'_, M>,
    addr: u64,
    len_bytes: u64,
    mode: u32,
    nodes: u64,
    flags: u32,
) -> Result<(), Error> {
    if flags != 0 {
        return Err(Error::Invalid);
    }
    space.set_policy(VirtAddr(addr), len_bytes, policy(mode, nodes).ok_or(Error::Invalid)?)
}

/// The advice that a number of `madvise` means.
pub fn advice(number: i32) -> Option<Advice> {
    use FlagAdvice::*;
    Some(match number {
        0 => Advice::Flag(Normal),
        1 => Advice::Flag(Random),
        2 => Advice::Flag(Sequential),
        3 => Advice::WillNeed,
        4 => Advice::DontNeed,
        8 => Advice::Free,
        10 => Advice::Flag(DontFork),
        11 => Advice::Flag(DoFork),
        14 => Advice::Flag(HugePage),
        15 => Advice::Flag(NoHugePage),
        16 => Advice::Flag(DontDump),
        17 => Advice::Flag(DoDump),
        18 => Advice::Flag(WipeOnFork),
        19 => Advice::Flag(KeepOnFork),
        20 => Advice::Cold,
        22 => Advice::PopulateRead,
        23 => Advice::PopulateWrite,
        _ => return None,
    })
}

/// `madvise(addr, len, number)`.
///
/// # Errors
/// As [`AddressSpace::advise`]; and [`Error::Invalid`] for an unknown number.
pub fn madvise<M: Machine>(
    space: &AddressSpace<'_, M>,
    addr: u64,
    len_bytes: u64,
    number: i32,
) -> Result<(), Error> {
    space.advise(VirtAddr(addr), len_bytes, advice(number).ok_or(Error::Invalid)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_of_mbind_are_linuxs_and_each_takes_its_nodes() {
        assert_eq!([policy(0, 0), policy(4, 0), policy(1, 0)], [Some(Policy::LOCAL); 3]);
        assert_eq!([policy(0, 1), policy(4, 1), policy(2, 0), policy(3, 0), policy(7, 1)], [None; 5]);
        assert_eq!(policy(1, 0b110), Policy::preferred(NodeId(1)));
        assert_eq!((policy(2, 3), policy(3, 3)), (Policy::bind(3), Policy::interleave(3)));
    }
}
