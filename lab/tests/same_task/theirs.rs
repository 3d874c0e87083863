//! The task with buddy_system_allocator, x86_64 and ax-memory-set, as a kernel on one CPU joins them.

use super::{PAGE, Seen, board};
use ax_memory_set::{MappingBackend, MemoryArea, MemorySet};
use std::ptr::with_exposed_provenance_mut;
use x86_64::structures::paging::mapper::{CleanUp, MapToError, MappedFrame, TranslateResult};
use x86_64::structures::paging::{
    FrameAllocator, FrameDeallocator, Mapper, OffsetPageTable, Page, PageTable, PageTableFlags, PhysFrame,
    Size4KiB, Translate,
};
use x86_64::{PhysAddr, VirtAddr};

// task: platform
struct Frames {
    free: buddy_system_allocator::FrameAllocator,
    allocated: u64,
}
impl Frames {
    fn new(start: u64, frames: usize) -> Self {
        let mut free = buddy_system_allocator::FrameAllocator::new();
        free.add_frame((start / PAGE) as usize, (start / PAGE) as usize + frames);
        Self { free, allocated: 0 }
    }
}
// SAFETY: the allocator gives each frame to one caller at a time.
unsafe impl FrameAllocator<Size4KiB> for Frames {
    fn allocate_frame(&mut self) -> Option<PhysFrame> {
        let at = self.free.alloc(1)? as u64 * PAGE;
        // SAFETY: a frame of the board's, which has no other owner.
        unsafe { with_exposed_provenance_mut::<u8>(at as usize).write_bytes(0, PAGE as usize) };
        self.allocated += 1;
        Some(PhysFrame::containing_address(PhysAddr::new(at)))
    }
}
impl FrameDeallocator<Size4KiB> for Frames {
    unsafe fn deallocate_frame(&mut self, frame: PhysFrame) {
        self.free.dealloc((frame.start_address().as_u64() / PAGE) as usize, 1);
        self.allocated -= 1;
    }
}
// task: end

// task: space
type Table = OffsetPageTable<'static>;
#[derive(Clone)]
struct OnDemand;
fn page_at(at: usize) -> Page {
    Page::containing_address(VirtAddr::new(at as u64))
}
impl MappingBackend for OnDemand {
    type Addr = usize;
    type Flags = PageTableFlags;
    type MutationContext = Frames;
    type PageTable = Table;
    fn map(&self, _: usize, _: usize, _: PageTableFlags, _: &mut Frames, _: &mut Table) -> bool {
        true
    }
    fn unmap(&self, start: usize, size: usize, frames: &mut Frames, table: &mut Table) -> bool {
        for at in (start..start + size).step_by(PAGE as usize) {
            if let Ok((frame, flush)) = table.unmap(page_at(at)) {
                flush.ignore(); // no hardware translates
                // SAFETY: the entry alone had the frame, and is gone.
                unsafe { frames.deallocate_frame(frame) };
            }
        }
        true
    }
    fn protect(&self, at: usize, size: usize, to: PageTableFlags, _: &mut Frames, table: &mut Table) -> bool {
        for at in (at..at + size).step_by(PAGE as usize) {
            // SAFETY: the frame stays the page's.
            if let Ok(flush) = unsafe { table.update_flags(page_at(at), to) } {
                flush.ignore();
            }
        }
        true
    }
    fn split(&mut self, _: usize) -> Option<Self> {
        Some(OnDemand)
    }
}
struct Space {
    areas: MemorySet<OnDemand>,
    table: Table,
    root: PhysFrame,
    frames: Frames,
}
const USER: PageTableFlags = PageTableFlags::PRESENT.union(PageTableFlags::USER_ACCESSIBLE);
const USER_RW: PageTableFlags = USER.union(PageTableFlags::WRITABLE);
const ALL: std::ops::Range<usize> = 0x10_000..0x7fff_ffff_f000;
impl Space {
    fn new(mut frames: Frames) -> Option<Self> {
        let root = frames.allocate_frame()?;
        let at = with_exposed_provenance_mut::<PageTable>(root.start_address().as_u64() as usize);
        // SAFETY: an empty table, whose frame is the space's until `end`; physical addresses are the host's.
        let table = unsafe { OffsetPageTable::new(&mut *at, VirtAddr::zero()) };
        Some(Self { areas: MemorySet::new(), table, root, frames })
    }
    fn map(&mut self, size: usize) -> Option<usize> {
        let limit = ALL.try_into().ok()?;
        let start = self.areas.find_free_area(ALL.start, size, limit, PAGE as usize)?;
        let area = MemoryArea::new(start, size, USER_RW, OnDemand);
        self.areas.map(area, &mut self.frames, &mut self.table, false).ok()?;
        Some(start)
    }
    fn fault(&mut self, at: usize, write: bool) -> bool {
        let Some(area) = self.areas.find(at) else { return false };
        let flags = area.flags();
        if write && !flags.contains(PageTableFlags::WRITABLE) {
            return false;
        }
        if let TranslateResult::Mapped { frame: MappedFrame::Size4KiB(_), .. } =
            self.table.translate(VirtAddr::new(at as u64))
        {
            return true;
        }
        let Some(frame) = self.frames.allocate_frame() else { return false };
        // SAFETY: a frame without another owner.
        match unsafe { self.table.map_to(page_at(at), frame, flags, &mut self.frames) } {
            Ok(flush) => flush.ignore(),
            Err(MapToError::FrameAllocationFailed | MapToError::ParentEntryHugePage) => return false,
            Err(MapToError::PageAlreadyMapped(_)) => return false,
        }
        true
    }
    fn protect(&mut self, start: usize, size: usize, to: PageTableFlags) -> bool {
        self.areas.protect(start, size, |_| Some(to), &mut self.frames, &mut self.table).is_ok()
    }
    fn unmap(&mut self, start: usize, size: usize) -> bool {
        self.areas.unmap(start, size, &mut self.frames, &mut self.table).is_ok()
    }
    fn end(mut self) -> u64 {
        self.areas.clear(&mut self.frames, &mut self.table).expect("every area can be unmapped");
        // SAFETY: no entry is left, and no hardware walks the tables.
        unsafe { self.table.clean_up(&mut self.frames) };
        // SAFETY: as above; the table is not used again.
        unsafe { self.frames.deallocate_frame(self.root) };
        self.frames.allocated
    }
}

pub fn run() -> Seen {
    let mut space = Space::new(Frames::new(board(2048), 2048)).unwrap();
    let (page, size) = (PAGE as usize, 256 * PAGE as usize);
    let base = space.map(size).unwrap();
    let written = (0..256).filter(|n| space.fault(base + n * page, true)).count();
    assert!(space.protect(base + 16 * page, 16 * page, USER));
    let writable = (0..256).filter(|n| space.fault(base + n * page, true)).count();
    let readable = (0..256).filter(|n| space.fault(base + n * page, false)).count();
    assert!(space.unmap(base + 64 * page, 128 * page));
    let left = (0..256).filter(|n| space.fault(base + n * page, false)).count();
    assert!(space.unmap(base, size));
    Seen { written, writable, readable, left, lost: space.end() }
}
// task: end
