//! The memory calls: untrusted words in, errors in Linux's order out. A call takes each word as wide as Linux
//! reads it. docs/design/arguments.md lists what checks each.

use crate::advice::advice;
use crate::policy::{misplaced, policy};
use crate::{Errno, MREMAP_DONTUNMAP, MREMAP_FIXED, MREMAP_MAYMOVE, MapFlags, Prot};
use interleaf::machine::Machine;
use interleaf::space::{AddressSpace, MapBacking, MapRequest, Place, RemapFlags, RemapRequest, Sharing};
use interleaf::units::{PAGE_SIZE, PageSize, VirtAddr};
use interleaf::vma::{PolicyRequest, VmaFlags};

const PAGE: u64 = PAGE_SIZE as u64;

/// The access rights among the bits of a `prot` word.
fn access(prot: Prot) -> VmaFlags {
    VmaFlags::from_bits_truncate(prot.bits()) & VmaFlags::ACCESS
}

/// The request of `mmap`'s words, and whether their flags say shared or private at all; where not, the
/// request is private.
#[inline]
pub fn map_request(addr: u64, len_bytes: u64, prot: u32, flags: u32) -> (MapRequest<'static>, bool) {
    let (prot, flags) = (Prot::from_bits_retain(prot), MapFlags::from_bits_retain(flags));
    let at = VirtAddr(addr);
    let place = match () {
        () if flags.contains(MapFlags::FIXED_NOREPLACE) => Place::FixedNoReplace(at),
        () if flags.contains(MapFlags::FIXED) => Place::Fixed(at),
        () if flags.contains(MapFlags::LOW) => Place::Low(at),
        () => Place::Hint(at),
    };
    let mut wanted = access(prot);
    wanted.set(VmaFlags::NORESERVE, flags.contains(MapFlags::NORESERVE));
    wanted.set(VmaFlags::NO_HUGE_PAGE, flags.contains(MapFlags::STACK));
    let kind = flags & MapFlags::TYPE;
    let sharing = if kind == MapFlags::SHARED { Sharing::Shared } else { Sharing::Private };
    // Linux: together the two make nothing present.
    let populate = flags & (MapFlags::POPULATE | MapFlags::NONBLOCK) == MapFlags::POPULATE;
    let request = MapRequest { place, flags: wanted, sharing, populate, ..MapRequest::anonymous(len_bytes) };
    (request, kind == MapFlags::SHARED || kind == MapFlags::PRIVATE)
}

/// Flags that Linux's mmap has and this one has not yet, each with the error that says so: Linux's own where
/// it has one, of a process that may lock no memory.
const NOT_YET: [(MapFlags, Errno); 2] =
    [(MapFlags::GROWSDOWN, Errno::EOPNOTSUPP), (MapFlags::LOCKED, Errno::EPERM)];

/// The size of the huge pages that the flags of mmap ask for: log2 of its bytes in their upper bits, or none
/// for the default. `None` for one that there is not. (Linux: `hstate_sizelog`.)
const fn huge_page_size(flags: MapFlags) -> Option<PageSize> {
    match flags.bits() >> MapFlags::HUGE_SHIFT & MapFlags::HUGE_MASK {
        0 | 21 => Some(PageSize::Huge),
        30 => Some(PageSize::Giant),
        _ => None,
    }
}

/// Where MAP_ABOVE4G begins.
const ABOVE: VirtAddr = VirtAddr(1 << 32);

/// `mmap(addr, len, prot, flags, fd, offset)`, its words as registers hold them. There are no files: `fd`
/// matters to none but them, and the offset must be one of a page all the same.
///
/// # Errors
/// [`Errno::EINVAL`] for an offset inside of a page; [`Errno::EBADF`] where the flags ask for a file;
/// [`Errno::EOPNOTSUPP`] for a mapping that grows down, and [`Errno::EPERM`] for locked memory, which are
/// refused rather than ignored; else as [`AddressSpace::map`], and
/// [`Errno::EINVAL`] where they say neither shared nor private, or huge pages of a size that there is not.
#[inline]
pub fn mmap<M: Machine>(
    space: &AddressSpace<'_, M>,
    [addr, len_bytes, prot, flags, _fd, offset]: [u64; 6],
) -> Result<VirtAddr, Errno> {
    if !offset.is_multiple_of(PAGE) {
        return Err(Errno::EINVAL);
    }
    // Linux reads no flag and no right above these.
    let (prot, flags) = (prot as u32, flags as u32);
    let asked = MapFlags::from_bits_retain(flags);
    if !asked.contains(MapFlags::ANONYMOUS) {
        return Err(Errno::EBADF);
    }
    let (request, has_type) = map_request(addr, len_bytes, prot, flags);
    if asked.intersects(SELDOM) || !has_type {
        return map_seldom(space, &request, asked, has_type);
    }
    Ok(space.map(&request)?)
}

/// The flags that [`map_seldom`] is for.
const SELDOM: MapFlags =
    MapFlags::GROWSDOWN.union(MapFlags::LOCKED).union(MapFlags::HUGETLB).union(MapFlags::ABOVE4G);

/// mmap with flags that are not built, that choose among places of their own, or without a kind of mapping.
#[cold]
#[inline(never)]
fn map_seldom<M: Machine>(
    space: &AddressSpace<'_, M>,
    request: &MapRequest<'_>,
    asked: MapFlags,
    has_type: bool,
) -> Result<VirtAddr, Errno> {
    if let Some(&(_, refused)) = NOT_YET.iter().find(|(flag, _)| asked.contains(*flag)) {
        return Err(refused);
    }
    if asked.contains(MapFlags::HUGETLB) {
        let size = huge_page_size(asked).filter(|_| has_type).ok_or(Errno::EINVAL)?;
        return Ok(space.map(&request.backed_by(MapBacking::Hugetlb(size)))?);
    }
    if !has_type {
        // Linux chooses the address first, so errors of that come first.
        space.choose_place(request)?;
        return Err(Errno::EINVAL);
    }
    let start = space.map(request)?;
    // With MAP_32BIT Linux does not look at it.
    if !asked.contains(MapFlags::LOW) && start < ABOVE {
        return keep_if_granted(space, request, start);
    }
    Ok(start)
}

/// Of MAP_ABOVE4G: what lies below was found by the last search, that of the lowest addresses, so there is no
/// room above. A hint is granted wherever it lies.
#[cold]
fn keep_if_granted<M: Machine>(
    space: &AddressSpace<'_, M>,
    request: &MapRequest<'_>,
    start: VirtAddr,
) -> Result<VirtAddr, Errno> {
    let hint = match request.place {
        Place::Hint(hint) => space.layout().areas.hint(hint),
        _ => return Ok(start),
    };
    if hint != Some(start.vpn()) {
        space.unmap(start, request.len_bytes)?;
        return Err(Errno::ENOMEM);
    }
    Ok(start)
}

/// `munmap(addr, len)`.
///
/// # Errors
/// As [`AddressSpace::unmap`].
#[inline]
pub fn munmap<M: Machine>(space: &AddressSpace<'_, M>, addr: u64, len_bytes: u64) -> Result<(), Errno> {
    Ok(space.unmap(VirtAddr(addr), len_bytes)?)
}

/// `mremap(addr, old_len, new_len, flags, to)`, its words as registers hold them.
///
/// # Errors
/// [`Errno::EINVAL`] for unknown flags; else as [`AddressSpace::remap`].
#[cold]
#[inline(never)]
pub fn mremap<M: Machine>(
    space: &AddressSpace<'_, M>,
    [addr, old_len_bytes, new_len_bytes, flags, to]: [u64; 5],
) -> Result<VirtAddr, Errno> {
    const FLAGS: [(u64, RemapFlags); 3] = [
        (MREMAP_MAYMOVE, RemapFlags::MAY_MOVE),
        (MREMAP_FIXED, RemapFlags::FIXED),
        (MREMAP_DONTUNMAP, RemapFlags::DONT_UNMAP),
    ];
    let (mut known, mut asked) = (0, RemapFlags::empty());
    for (bit, flag) in FLAGS {
        known |= bit;
        asked.set(flag, flags & bit != 0);
    }
    if flags & !known != 0 {
        return Err(Errno::EINVAL);
    }
    let (addr, to) = (VirtAddr(addr), VirtAddr(to));
    Ok(space.remap(&RemapRequest { addr, old_len_bytes, new_len_bytes, flags: asked, to })?)
}

/// `mprotect(addr, len, prot)`, with rights as wide as Linux reads them: a bit above the known ones is an
/// unknown right.
///
/// # Errors
/// As [`AddressSpace::protect`]; and [`Errno::EINVAL`] for unknown rights, or `PROT_GROWSDOWN` and
/// `PROT_GROWSUP` where no mapping grows.
pub fn mprotect<M: Machine>(
    space: &AddressSpace<'_, M>,
    addr: u64,
    len_bytes: u64,
    prot: u64,
) -> Result<(), Errno> {
    const GROWS: Prot = Prot::GROWSDOWN.union(Prot::GROWSUP);
    const KNOWN: Prot = GROWS.union(Prot::SEM).union(Prot::READ).union(Prot::WRITE).union(Prot::EXEC);
    let (prot, above) = (Prot::from_bits_retain(prot as u32), prot >> u32::BITS);
    if prot.contains(GROWS) || !addr.is_multiple_of(PAGE) {
        return Err(Errno::EINVAL);
    }
    if len_bytes == 0 {
        return Ok(());
    }
    let rounded = len_bytes.checked_next_multiple_of(PAGE);
    rounded.and_then(|len| addr.checked_add(len)).ok_or(Errno::ENOMEM)?;
    if !KNOWN.contains(prot) || above != 0 {
        return Err(Errno::EINVAL);
    }
    if prot.intersects(GROWS) {
        let seen = if prot.contains(Prot::GROWSDOWN) { len_bytes } else { 1 };
        let mapped = space.inspect().is_any_mapped(VirtAddr(addr), seen);
        return Err(if mapped { Errno::EINVAL } else { Errno::ENOMEM });
    }
    Ok(space.protect(VirtAddr(addr), len_bytes, access(prot))?)
}

/// `madvise(addr, len, advice)`.
///
/// # Errors
/// As [`AddressSpace::advise`]; and [`Errno::EINVAL`] for an unknown number.
pub fn madvise<M: Machine>(
    space: &AddressSpace<'_, M>,
    addr: u64,
    len_bytes: u64,
    number: i32,
) -> Result<(), Errno> {
    Ok(space.advise(VirtAddr(addr), len_bytes, advice(number).ok_or(Errno::EINVAL)?)?)
}

/// `brk(addr)`: returns the new end of the heap.
#[inline]
pub fn brk<M: Machine>(space: &AddressSpace<'_, M>, addr: u64) -> u64 {
    space.brk(VirtAddr(addr)).0
}

/// The checks of `mincore(addr, len, to)` before any page: alignment, the range, the buffer at `to` of a byte
/// a page. All must end at `user_end` or below.
///
/// # Errors
/// [`Errno::EINVAL`], [`Errno::ENOMEM`] and [`Errno::EFAULT`], in this order.
pub fn check_mincore(addr: u64, len_bytes: u64, to: u64, user_end: u64) -> Result<(), Errno> {
    if !addr.is_multiple_of(PAGE) {
        return Err(Errno::EINVAL);
    }
    let is_user = |end: &u64| *end <= user_end;
    addr.checked_add(len_bytes).filter(is_user).ok_or(Errno::ENOMEM)?;
    to.checked_add(len_bytes.div_ceil(PAGE)).filter(is_user).ok_or(Errno::EFAULT)?;
    Ok(())
}

/// `mbind(addr, len, mode, mask, max_node, flags)`. `nodes` reads the mask by
/// [`read_nodes`](crate::read_nodes); it is called once the mode is known to be valid. Pages that are present
/// stay where they are: as far as `flags` ask for it, those on other nodes are looked for.
///
/// # Errors
/// In Linux's order: [`Errno::EINVAL`] for the mode; what `nodes` says; [`Errno::EINVAL`] for unknown flags,
/// [`Errno::EPERM`] for those that need a privilege; then as [`AddressSpace::set_policy`].
pub fn mbind<M: Machine>(
    space: &AddressSpace<'_, M>,
    addr: u64,
    len_bytes: u64,
    mode: u32,
    nodes: impl FnOnce() -> Result<u64, Errno>,
    flags: u32,
) -> Result<(), Errno> {
    let policy = policy(mode)?;
    let request = PolicyRequest { nodes: nodes()?, ..policy };
    Ok(space.set_policy(VirtAddr(addr), len_bytes, request, misplaced(flags)?)?)
}
