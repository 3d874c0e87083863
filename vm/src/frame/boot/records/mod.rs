//! Memory for the frame records: on the nodes of the frames that they describe, where the platform has a
//! record window; else in one piece.
//!
//! ```text
//!   frames            node 0        node 1      hole        node 0
//!                ├─────────────┼─────────────┤ · · · · ├─────────────┤
//!   record       ┌──────┬──────┬──────┬──────┬─────────┬──────┬──────┐   one array of virtual addresses:
//!   window       │ p    │ p    │ q    │ q    │ zeroes  │ r    │ r    │   record of n = base + 32 n
//!                └──┬───┴──────┴──┬───┴──────┴─────────┴──┬───┴──────┘
//!   memory          │ end of a    │ end of a              │ end of a
//!                   ▼ region of 0 ▼ region of 1           ▼ region of 0
//! ```
//!
//! The unit of placement is a page of records, 128 frames. A page with frames of two nodes lies on the node
//! of the first usable one. Consecutive pages of one node are an extent ([`RecordExtent`]): one piece of
//! memory, mapped by one call. An extent of at least the size of the platform's large page lies as far from
//! such a page's start as its addresses do, so that large pages map all of it but the ends; what this skips
//! of the region stays in the map. Inside of a hole whole large pages of records have no memory: the platform
//! has them read as zeroes, *reserved*, and nothing writes there.
//!
//! A node that lacks memory (an extent would take more than half of each of its regions) has its records on
//! the nearest node that has enough. Memory of which all records would be one extent needs no window.
//!
//! | file | holds |
//! |---|---|
//! | `plan` | [`plan_extents`]: which records lie on which node, a pure decision |
//! | this one | memory for the extents, and the window |
//!
//! docs/design/deferred.md, "On which node", has the reasons.

mod plan;

use super::deferred::ClaimBitmap;
use super::{BootError, BootMap, BootMemory, RecordInit, Region};
use crate::frame::Init;
use crate::frame::record::{FrameTable, RECORD_BYTES, RECORDS_IN_PAGE, RecordExtent};
use crate::machine::{Machine, TablePage};
use crate::sync::{carve_slice, fill_some};
use crate::units::{CACHE_LINE, Order, PAGE_SIZE, Pfn, PfnRange, PhysAddr};
use core::alloc::Layout;
use core::ptr::NonNull;
use plan::{HoleRecords, PlannedExtent, plan_extents};

/// The frame table, the initial contents of its memory, and the state of its blocks.
pub(super) struct Records<'m, M: Machine> {
    pub table: FrameTable<'m, M::Cpu>,
    pub init: Init,
    pub claims: ClaimBitmap<'m, M::Cpu>,
}

impl<'m, M: Machine> Records<'m, M> {
    /// Memory for the records of all usable frames of the boot map.
    ///
    /// Unless they are zeroed already, records are written before they are looked up. With
    /// [`RecordInit::Eager`] that is done here. Else `EarlySetup::finish` clears those that are not deferred
    /// before the first allocation, and the thread that claims a deferred block clears its records before it
    /// notes that they are written and frees the frames; `Memory::meta` refuses frames whose record is not
    /// noted as written.
    pub fn alloc(memory: &mut BootMemory<'m, M>, init: RecordInit) -> Result<Self, BootError> {
        let map = memory.map().clone();
        let span = map.span().ok_or(BootError::NoMemory)?;
        let (table, mut contents) = match Window::reserve(memory.machine(), &map, span) {
            Some(window) => window.fill(memory, &map, span),
            None => contiguous(memory, &map, span, init),
        }
        .ok_or(BootError::TooSmall)?;
        let Some(claims) = ClaimBitmap::alloc(&mut memory.early_allocator(), table.span(), init) else {
            return Err(BootError::TooSmall);
        };
        if init == RecordInit::Eager && contents == Init::Dirty {
            // SAFETY: all records of a table that nothing else uses yet.
            unsafe { table.clear(table.span()) };
            contents = Init::Zeroed;
        }
        Ok(Self { table, init: contents, claims })
    }
}

/// All records in one piece, from the end of the last region that has enough. Those of a deferred block start
/// on a frame of their own.
fn contiguous<'m, M: Machine>(
    memory: &mut BootMemory<'m, M>,
    map: &BootMap,
    span: PfnRange,
    init: RecordInit,
) -> Option<(FrameTable<'m, M::Cpu>, Init)> {
    let first = FrameTable::<M::Cpu>::first_of(span);
    let skip = match init {
        RecordInit::Eager => 0,
        RecordInit::Deferred => bytes_of(first.0 % RECORDS_IN_PAGE)?,
    };
    let align = if init == RecordInit::Eager { CACHE_LINE } else { PAGE_SIZE };
    let bytes = bytes_of(span.end.0 - first.0)?.checked_add(skip)?;
    let (at, piece) = memory.early_allocator().carve_uninit(Layout::from_size_align(bytes, align).ok()?)?;
    let planned = |each: &mut dyn FnMut(PlannedExtent)| plan_extents(map, HoleRecords::Kept, each);
    let mut nr_extents = 0;
    planned(&mut |_| nr_extents += 1);
    let slots = carve_slice(&mut memory.early_allocator(), nr_extents)?;
    let extents = fill_some(slots, |push| {
        planned(&mut |PlannedExtent { frames, node }| {
            let frames = PfnRange::new(frames.start.max(first), frames.end.min(span.end));
            let skipped = (frames.start.0 - first.0) * RECORD_BYTES + skip as u64;
            let memory = PhysAddr(piece.start.0 + skipped);
            push(RecordExtent { frames, node, memory, memory_node: piece.node });
        });
    });
    // SAFETY: less than what was carved.
    let records = unsafe { at.add(skip) }.cast();
    // SAFETY: 1: the bytes were carved for the table, in one piece, from the first record on, and boot memory
    // does not come back. 2: see `Records::alloc`.
    let table = unsafe { FrameTable::new(records, span, extents) };
    Some((table, piece.init))
}

/// Bytes of this number of records.
fn bytes_of(records: u64) -> Option<usize> {
    usize::try_from(records.checked_mul(RECORD_BYTES)?).ok()
}

/// A reserved record window.
struct Window {
    start: NonNull<u8>,
    /// The frame whose record would lie at its start.
    first: Pfn,
    /// Bytes of the platform's large page, or of the records of a block, if that is more.
    large_page: u64,
    nr_extents: usize,
}

impl Window {
    /// A window for the records of the span. `None` where the platform has none, or all records would be one
    /// extent.
    fn reserve<M: Machine>(machine: &M, map: &BootMap, span: PfnRange) -> Option<Self> {
        let large_page = (M::RECORD_WINDOW_ALIGN as u64).max(Order::MAX.frames() * RECORD_BYTES);
        let in_large_page = large_page / RECORD_BYTES;
        let first = Pfn(span.start.0 / in_large_page * in_large_page);
        let end = span.end.0.checked_next_multiple_of(in_large_page)?;
        let mut nr_extents = 0;
        plan_extents(map, HoleRecords::LeftOut { in_large_page }, &mut |_| nr_extents += 1);
        if nr_extents < 2 {
            return None;
        }
        let start = machine.reserve_record_window(bytes_of(end - first.0)?)?;
        let is_aligned = start.addr().get().is_multiple_of(M::RECORD_WINDOW_ALIGN);
        assert!(is_aligned && large_page.is_power_of_two(), "a record window is not aligned");
        Some(Self { start, first, large_page, nr_extents })
    }

    /// Puts memory behind the window, extent by extent. `None` where it does not suffice.
    fn fill<'m, M: Machine>(
        &self,
        memory: &mut BootMemory<'m, M>,
        map: &BootMap,
        span: PfnRange,
    ) -> Option<(FrameTable<'m, M::Cpu>, Init)> {
        let slots = carve_slice(&mut memory.early_allocator(), self.nr_extents)?;
        let (mut contents, mut is_complete) = (Init::Zeroed, true);
        let holes = HoleRecords::LeftOut { in_large_page: self.large_page / RECORD_BYTES };
        let extents = fill_some(slots, |push| {
            plan_extents(map, holes, &mut |planned| {
                let placed = if is_complete { self.place(memory, planned) } else { None };
                is_complete = placed.is_some();
                if let Some((extent, init)) = placed {
                    push(extent);
                    contents = if init == Init::Dirty { Init::Dirty } else { contents };
                }
            });
        });
        if !is_complete {
            return None;
        }
        let first = FrameTable::<M::Cpu>::first_of(span);
        // SAFETY: the window was reserved for this table and stays (`Machine`, rule 10); the offset of the
        // first record is less than its length.
        let records = unsafe { self.start.add(bytes_of(first.0 - self.first.0)?) };
        // SAFETY: 1: every extent of the plan was mapped, and between them the window reads as zeroes (rule
        // 10). 2: see `Records::alloc`.
        Some((unsafe { FrameTable::new(records.cast(), span, extents) }, contents))
    }

    /// Allocates memory for an extent and maps it.
    fn place<M: Machine>(
        &self,
        memory: &mut BootMemory<'_, M>,
        PlannedExtent { frames, node }: PlannedExtent,
    ) -> Option<(RecordExtent, Init)> {
        let machine = memory.machine();
        let offset = (frames.start.0 - self.first.0) * RECORD_BYTES;
        let len_bytes = frames.len() * RECORD_BYTES;
        let align = if len_bytes < self.large_page { PAGE_SIZE as u64 } else { self.large_page };
        let rank = |region: &Region| match region.node == node {
            true if region.len_bytes >= 2 * len_bytes || mutant!("records.node-may-be-eaten") => 0,
            true => u32::MAX,
            false => machine.distance(node, region.node).clamp(1, u32::MAX - 1),
        };
        let rank = |region: &Region| if mutant!("records.any-node") { 0 } else { rank(region) };
        let piece = memory.take_piece(len_bytes, (align, offset % align), rank)?;
        let pieces = PfnRange::new(piece.start.pfn(), piece.start.pfn().add(len_bytes / PAGE_SIZE as u64));
        let mut take_frame = || {
            let (frame, _) = memory.early_allocator().carve_uninit(FRAME)?;
            Some(machine.phys_of(frame).pfn())
        };
        // SAFETY: the offset of a planned extent lies in the window, which was reserved for the span.
        let at = unsafe { self.start.add(usize::try_from(offset).ok()?) };
        // SAFETY: extents do not overlap and lie in the window. Their memory has just left boot memory, which
        // was given to the library; the table reaches it by the window, and never gives it up.
        let is_mapped = unsafe { machine.map_record_window(at, pieces, &mut take_frame) };
        let extent = RecordExtent { frames, node, memory: piece.start, memory_node: piece.node };
        is_mapped.then_some((extent, piece.init))
    }
}

/// A frame, for the platform's tables.
const FRAME: Layout = Layout::new::<TablePage>();
