//! Plays the steps of a life on the library: what a processor and a program would have done.
//!
//! A touch is an instruction: translated by the TLB, faulting as often as it takes, the page fault being the
//! library's own. A call goes to the library with the arguments that Linux got. Where Linux was free to
//! choose a place the library is free too; only if it answers otherwise is the recorded answer imposed, so
//! that what follows meets the recorded addresses.
//!
//! The clock of `replay.fault_heavy` runs over [`Player::step`], so no step allocates, and one that went as
//! recorded does nothing beyond the program's work.

use super::fault_counts::FaultCounts;
use super::objects::Objects;
use super::play::Spaces;
use super::setup::ReplayMachine;
use super::step::{Act, CallStep, STAND_IN, Step, Steps, Tried};
use crate::machine::soft::{FaultHandler, Signal};
use interleaf::machine::Entry;
use interleaf::space::{AddressSpace, Advice, Error, Fault, MapRequest, Place};
use interleaf::table::{Resident, walk};
use interleaf::units::{Access, Level, PAGE_SIZE, PageSize, Pfn, VirtAddr, Vpn, VpnRange};
use interleaf::vma::{GUARD_PAGES, VmaAttributes, VmaFlags};
use interleaf_linux_abi::{self as linux, Errno, MapFlags};
use std::ops::Range;

/// Pages that a table of tables of leaves maps.
const TABLES_PAGES: u64 = 1 << 18;
/// One past the last page of a space with tables of four levels.
const USER_END: Vpn = Vpn(1 << 35);

/// A life under way, in one of its turns.
pub struct Player<'a, 'v> {
    /// The machine; this thread runs on its CPU.
    pub machine: &'a ReplayMachine,
    /// The space, which that CPU runs.
    pub space: &'a AddressSpace<'v, ReplayMachine>,
    /// The spaces of its family, this one among them.
    pub(super) family: &'a Spaces<'v>,
    /// The files that the family has mapped.
    pub(super) objects: &'a Objects<'v>,
    /// What faults came to.
    pub counts: &'a FaultCounts,
    /// How far the stack may grow, bytes.
    pub stack_limit: u64,
}

impl FaultHandler for Player<'_, '_> {
    #[inline]
    fn fault(&self, addr: VirtAddr, access: Access) -> Result<(), Signal> {
        let done = self.space.fault(Fault { addr, access });
        self.counts.count(done);
        done.map(drop).map_err(|_| Signal::Segv)
    }
}

impl<'a, 'v> Player<'a, 'v> {
    /// A turn of the space.
    pub fn new(
        machine: &'a ReplayMachine,
        space: &'a AddressSpace<'v, ReplayMachine>,
        family: &'a Spaces<'v>,
        counts: &'a FaultCounts,
        objects: &'a Objects<'v>,
        stack_limit: Option<u64>,
    ) -> Self {
        Self { machine, space, family, objects, counts, stack_limit: stack_limit.unwrap_or(u64::MAX) }
    }

    /// Forks the space. Entries of a stand-in that was never written are dropped in the child: Linux's fork
    /// does not copy entries of a device of which the mapping has no private copies.
    ///
    /// # Errors
    /// Where there is no memory.
    pub fn fork(&self) -> Result<AddressSpace<'v, ReplayMachine>, Error> {
        let child = self.space.fork()?;
        let mut unwritten = Vec::new();
        child.inspect().each_vma(|vma| {
            let is_stand_in = vma.is_anonymous() && vma.flags.contains(STAND_IN);
            if is_stand_in && vma.anon.is_none() {
                unwritten.push(vma.range);
            }
        });
        for range in unwritten {
            child.advise(range.start.addr(), range.len() * PAGE_SIZE as u64, Advice::DontNeed)?;
        }
        Ok(child)
    }

    /// The first page of the huge page that holds the page, of memory or of zeros.
    pub fn huge_page_at(&self, page: Vpn) -> Option<Vpn> {
        let reading = self.space.vm().read();
        let found = walk(self.space.inspect().page_table(), page, Level::Pte, &reading);
        let is_huge = found.table.level() == Level::Pmd && matches!(found.entry(), Entry::Leaf(_));
        is_huge.then_some(Vpn(page.0 & !(PageSize::Huge.pages() - 1)))
    }

    /// Whether forks made other spaces of the same memory.
    pub fn is_of_several(&self) -> bool {
        self.family.is_of_several()
    }

    /// How many spaces of the family map the frame at the page: two, where it is more than one.
    pub fn mappers(&self, page: Vpn, frame: Pfn) -> usize {
        let maps = |space: &AddressSpace<'_, _>| {
            space.inspect().resident_frame(page).is_some_and(|(f, _)| f == frame)
        };
        self.family.alive().filter(|space| maps(space)).take(2).count()
    }

    /// Plays one step of `all`. Returns whether the answer was Linux's.
    #[inline]
    pub fn step(&self, step: &Step, all: &Steps) -> bool {
        match *step {
            Step::Nothing | Step::Barred { .. } => true,
            Step::Touch { addr, tried } => self.touch(addr, tried).is_ok(),
            Step::TouchFile { addr, tried, cached } => self.touch_file(addr, tried, cached).is_ok(),
            Step::TouchBeyond { addr, tried } => self.touch_beyond(addr, tried).is_ok(),
            Step::Call(at) => {
                let call = &all.calls[at as usize];
                self.call(call) == call.expected
            }
        }
    }

    /// Touches a byte. Where nothing is mapped and a stack is above, the stack grows, by hand: the library
    /// has no growth yet.
    ///
    /// # Errors
    /// The signal that the program would have got.
    #[inline]
    pub fn touch(&self, addr: VirtAddr, tried: Tried) -> Result<(), Signal> {
        self.touch_again(addr, tried).or_else(|signal| {
            if tried == Tried::As(Access::Execute) && self.is_fetch_a_read(addr) {
                return self.touch_as(addr, Access::Read);
            }
            if self.extend_file_to(addr) {
                return self.touch_again(addr, tried);
            }
            self.grow_stack(addr).ok_or(signal)?;
            self.counts.grew();
            let Tried::As(access) = tried else { return self.touch_as(addr, Access::Write) };
            self.touch_as(addr, access)
        })
    }

    /// Loads a byte of a file, around which the page cache had these pages.
    ///
    /// # Errors
    /// The signal that the program would have got.
    pub fn touch_file(&self, addr: VirtAddr, tried: Tried, cached: u32) -> Result<(), Signal> {
        self.bring_cached(addr, cached);
        self.touch(addr, tried)
    }

    /// Touches a byte beyond the end of its file, as Linux saw it.
    ///
    /// # Errors
    /// The signal that the program would have got.
    #[cold]
    pub fn touch_beyond(&self, addr: VirtAddr, tried: Tried) -> Result<(), Signal> {
        self.end_file_before(addr);
        self.touch_again(addr, tried)
    }

    #[inline]
    fn touch_again(&self, addr: VirtAddr, tried: Tried) -> Result<(), Signal> {
        match tried {
            Tried::As(access) => self.touch_as(addr, access),
            Tried::AsAllowed => self.touch_as_allowed(addr),
            Tried::AsForbidden => self.touch_as_forbidden(addr),
        }
    }

    #[inline]
    fn touch_as(&self, addr: VirtAddr, access: Access) -> Result<(), Signal> {
        self.machine.touch(addr, access, self).map(drop)
    }

    /// Whether Linux treats a fetch that was refused as a read: of a fetch from an absent page x86-64's
    /// handler asks for a right to read alone, as of a load. It maps the page, the processor tries again, and
    /// the next fault says that the page may not be executed.
    #[cold]
    fn is_fetch_a_read(&self, addr: VirtAddr) -> bool {
        let forbids = |vma: VmaAttributes| !vma.flags.contains(VmaFlags::EXECUTE);
        self.machine.leaf_at(addr.vpn()).is_none() && self.space.inspect().vma_at(addr).is_some_and(forbids)
    }

    #[cold]
    fn touch_as_allowed(&self, addr: VirtAddr) -> Result<(), Signal> {
        let touch = |access| self.touch_as(addr, access);
        touch(Access::Write).or_else(|_| touch(Access::Read)).or_else(|_| touch(Access::Execute))
    }

    /// An access that the mapping forbids, the likeliest first; where it allows all, as it allows.
    #[cold]
    fn touch_as_forbidden(&self, addr: VirtAddr) -> Result<(), Signal> {
        let flags = self.space.inspect().vma_at(addr).map_or(VmaFlags::empty(), |vma| vma.flags);
        let rights = [(Access::Write, VmaFlags::WRITE), (Access::Execute, VmaFlags::EXECUTE)];
        match rights.into_iter().find(|(_, right)| !flags.contains(*right)) {
            Some((access, _)) => self.touch_as(addr, access),
            None => self.touch_as_allowed(addr),
        }
    }

    /// Linux: `expand_stack`. The stack may be in pieces here, of which the lowest have grown.
    #[cold]
    fn grow_stack(&self, addr: VirtAddr) -> Option<()> {
        let new = addr.0 & !(PAGE_SIZE as u64 - 1);
        let (below, above, end) = self.around(addr)?;
        let start = above.range.start.addr().0;
        let grows = above.flags.contains(VmaFlags::GROWS_DOWN) && start > addr.0;
        let gap = GUARD_PAGES * PAGE_SIZE as u64;
        let is_near = |below: VmaAttributes| {
            let keeps_off =
                !below.flags.contains(VmaFlags::GROWS_DOWN) && below.flags.intersects(VmaFlags::ACCESS);
            keeps_off && new - below.range.end.addr().0 < gap
        };
        if !grows || end - new > self.stack_limit || below.is_some_and(is_near) {
            return None;
        }
        let flags = above.flags - VmaFlags::ACCOUNT;
        let place = Place::FixedNoReplace(VirtAddr(new));
        self.space.map(&MapRequest { place, flags, ..MapRequest::anonymous(start - new) }).ok().map(drop)
    }

    /// The last mapping that ends at or below the address, not far from it; the first that ends above, and
    /// where the pieces end that follow on it with the same flags.
    fn around(&self, addr: VirtAddr) -> Option<(Option<VmaAttributes>, VmaAttributes, u64)> {
        let above = self.first_above(addr)?;
        let mut end = above.range.end.addr().0;
        let pieces = self.mappings(end..u64::MAX);
        pieces
            .take_while(|vma| {
                let follows = vma.flags == above.flags && vma.range.start.addr().0 == end;
                end = if follows { vma.range.end.addr().0 } else { end };
                follows
            })
            .for_each(drop);
        let near = addr.0.saturating_sub((GUARD_PAGES + 1) * PAGE_SIZE as u64);
        let below = self.mappings(near..addr.0).filter(|vma| vma.range.end.addr().0 <= addr.0).last();
        Some((below, above, end))
    }

    /// Pages from the address on that mappings without a hole allow to be accessed.
    pub(super) fn accessible_pages(&self, addr: VirtAddr) -> u64 {
        let mut end = addr.vpn();
        for vma in self.mappings(addr.0..u64::MAX) {
            if vma.range.start > end || !vma.flags.intersects(VmaFlags::ACCESS) {
                break;
            }
            end = vma.range.end;
        }
        end.0 - addr.vpn().0
    }

    /// The first mapping that ends above the address.
    pub(super) fn first_above(&self, addr: VirtAddr) -> Option<VmaAttributes> {
        self.mappings(addr.0..u64::MAX).next()
    }

    /// Whether any page of the range has an entry.
    pub(super) fn has_entries(&self, range: VpnRange) -> bool {
        self.space.inspect().resident_in(range) != Resident::default()
    }

    /// The pages of the bytes, without those of tables of leaves that have no entry.
    pub(super) fn pages_with_entries(&self, bytes: Range<u64>) -> impl Iterator<Item = Vpn> {
        let all = VpnRange::new(VirtAddr(bytes.start).vpn(), Vpn(bytes.end.div_ceil(PAGE_SIZE as u64)));
        let all = all.intersect(VpnRange::new(Vpn(0), USER_END));
        let tables = self.parts_with_entries(all, TABLES_PAGES);
        let tables = tables.flat_map(|tables| self.parts_with_entries(tables, PageSize::Huge.pages()));
        tables.flat_map(|table| (table.start.0..table.end.0).map(Vpn))
    }

    /// The parts of the range, of so many pages each, that have an entry.
    fn parts_with_entries(&self, all: VpnRange, unit: u64) -> impl Iterator<Item = VpnRange> {
        let part = move |at: u64| VpnRange::new(Vpn(at * unit), Vpn((at + 1) * unit)).intersect(all);
        let parts = (all.start.0 / unit..all.end.0.div_ceil(unit)).map(part);
        parts.filter(|part| self.has_entries(*part))
    }

    /// The mappings of the bytes, by rising address.
    pub(super) fn mappings(&self, bytes: Range<u64>) -> impl Iterator<Item = VmaAttributes> {
        let end = Vpn(bytes.end.div_ceil(PAGE_SIZE as u64));
        let mut rest = VpnRange::new(VirtAddr(bytes.start).vpn().min(end), end);
        std::iter::from_fn(move || {
            let vma = self.space.inspect().first_vma_in(rest)?;
            rest = VpnRange::new(vma.range.end.min(end), end);
            Some(vma)
        })
    }

    /// Carries a call out and returns what the library answered, as Linux would: a value, or an error number
    /// below zero. Afterwards the effect is that of the recorded answer.
    pub fn call(&self, call: &CallStep) -> i64 {
        let answer = self.carry_out(call);
        match call.refused {
            None => answer,
            Some(error) => refused_after(call, answer, error),
        }
    }

    fn carry_out(&self, call: &CallStep) -> i64 {
        let space = self.space;
        let nothing = |done: Result<(), Errno>| answer(done.map(|()| 0));
        match call.act {
            Act::Mmap { addr, len, prot, flags, offset } => {
                let map = |addr, flags: u32| {
                    linux::mmap(space, [addr, len, prot.into(), flags.into(), u64::MAX, offset])
                };
                let ours = map(addr, flags);
                self.impose_place(ours, call.expected, len, |at| map(at.0, flags | MapFlags::FIXED.bits()))
            }
            Act::MapFile { file, first, request } => {
                let map = |request: MapRequest<'_>| {
                    let object = self.objects.get(file)?;
                    space.map(&request.backed_by(object.at_page(first))).map_err(Errno::from)
                };
                self.impose_place(map(request), call.expected, request.len_bytes, |at| {
                    map(MapRequest { place: Place::Fixed(at), ..request })
                })
            }
            Act::Msync { addr, len, mode } => {
                nothing(space.sync(VirtAddr(addr), len, mode, |id| self.find(id)).map_err(Errno::from))
            }
            Act::StandIn(request) => {
                let ours = space.map(&request).map_err(Errno::from);
                self.impose_place(ours, call.expected, request.len_bytes, |at| {
                    space.map(&MapRequest { place: Place::Fixed(at), ..request }).map_err(Errno::from)
                })
            }
            Act::Munmap { addr, len } => nothing(linux::munmap(space, addr, len)),
            Act::Mprotect { addr, len, prot } => nothing(linux::mprotect(space, addr, len, prot)),
            Act::Madvise { addr, len, advice } => nothing(linux::madvise(space, addr, len, advice)),
            Act::Brk { addr } => {
                let ours = linux::brk(space, addr) as i64;
                if ours != call.expected {
                    space.brk(VirtAddr(call.expected as u64));
                }
                ours
            }
            Act::Mremap { .. } => self.remap(call),
            Act::SetThpDisable(thp_disable) => {
                space.set_thp_disable(thp_disable);
                0
            }
            Act::Nothing => call.expected,
        }
    }

    /// Where the library put `len` bytes elsewhere than Linux, or only one of them refused: the recorded
    /// place holds.
    #[inline]
    fn impose_place(
        &self,
        ours: Result<VirtAddr, Errno>,
        expected: i64,
        len: u64,
        put: impl Fn(VirtAddr) -> Result<VirtAddr, Errno>,
    ) -> i64 {
        let said = answer(ours.map(|at| at.0));
        if said != expected {
            if let Ok(at) = ours {
                let _gone = self.space.unmap(at, len);
            }
            if let Ok(at) = u64::try_from(expected) {
                // Refused again: the final map will show it.
                let _put = put(VirtAddr(at));
            }
        }
        said
    }
}

/// What a call returns that comes to memory which refuses it with `error`, where what lies before answered
/// so: holes are skipped by advice that changes no pages' presence, and reported at the end.
fn refused_after(call: &CallStep, before: i64, error: i64) -> i64 {
    let skips_holes = matches!(call.act, Act::Madvise { advice, .. }
        if ![linux::advice::POPULATE_READ, linux::advice::POPULATE_WRITE].contains(&advice));
    let is_of_holes = skips_holes && before == Errno::ENOMEM.as_return_value();
    if before < 0 && !is_of_holes && call.act != Act::Nothing { before } else { error }
}

/// What Linux would return.
pub fn answer(done: Result<u64, Errno>) -> i64 {
    done.map_or_else(Errno::as_return_value, |value| value as i64)
}
