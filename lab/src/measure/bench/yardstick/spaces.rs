//! ax-memory-set over ax-page-table-multiarch: an address space as ArceOS builds it, doing what ours does
//! when some pages are mapped, touched and unmapped.
//!
//! Mapping records a `MemoryArea`; nothing is populated. A touch finds the area by address and checks its
//! rights, takes a frame, zeroes it, and enters it into the page table: what ArceOS does for a lazy mapping.
//! Unmapping takes every entry out, gives the frames back, and drops the area.
//!
//! It is spared some work: there is no lock and no other CPU, its flush is an empty function, and a
//! page-table page once made stays. Its frames come from buddy_system_allocator, the frame allocator that
//! such kernels use, or from a stack of ready frames: the least that any allocator could cost.

use crate::measure::bench::{Frame, ns_per};
use ax_memory_addr::{PhysAddr, VirtAddr};
use ax_memory_set::{MappingBackend, MemoryArea, MemorySet};
use ax_page_table_entry::{MappingFlags, x86_64::X64PTE};
use ax_page_table_multiarch::{PageSize, PageTable64, PagingHandler, PagingMetaData};
use buddy_system_allocator::FrameAllocator;
use std::cell::RefCell;
use std::hint::black_box;

const PAGE: usize = 4096;
/// Where the first data frame lies in the physical memory of the page table; frame `n` is `n`
/// pages above. The frames of page tables lie at their host addresses, far above.
const DATA: usize = 1 << 20;
/// How many page-table pages a thread may use: a tree for one mapping needs four.
const NR_TABLES: usize = 64;

type Table = PageTable64<FourLevels, X64PTE, HostTables>;

/// Where its frames come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frames {
    /// A stack of just as many frames as are needed: no allocator at all.
    Stack,
    /// buddy_system_allocator over this number of frames, all free at first.
    Buddy(usize),
}

/// Mapping `nr_pages`, writing to each, and unmapping them again: nanoseconds for all of it.
pub fn map_touch_unmap(nr_pages: usize, frames: Frames, times: u64) -> impl FnMut() -> f64 {
    let mut space = Space::new(nr_pages, frames);
    move || ns_per(times, || space.round(nr_pages))
}

/// An address space of the two crates, with the memory behind it.
struct Space {
    areas: MemorySet<Lazy>,
    table: Table,
    memory: Memory,
}

/// The frames of user memory, and which of them are free.
struct Memory {
    frames: Vec<Frame>,
    free: Free,
}

/// Which frames are free.
enum Free {
    Stack(Vec<usize>),
    Buddy(Box<FrameAllocator>),
}

impl Memory {
    fn new(nr_pages: usize, frames: Frames) -> Memory {
        let nr_frames = match frames {
            Frames::Stack => nr_pages,
            Frames::Buddy(nr_frames) => nr_frames,
        };
        let free = match frames {
            Frames::Stack => Free::Stack((0..nr_frames).rev().collect()),
            Frames::Buddy(_) => {
                let mut buddy = Box::new(FrameAllocator::new());
                buddy.add_frame(0, nr_frames);
                Free::Buddy(buddy)
            }
        };
        Memory { frames: Frame::dirty(nr_frames), free }
    }

    fn take(&mut self) -> usize {
        let frame = match &mut self.free {
            Free::Stack(stack) => stack.pop(),
            Free::Buddy(buddy) => buddy.alloc(1),
        };
        frame.expect("a frame for every page")
    }

    fn give(&mut self, frame: usize) {
        match &mut self.free {
            Free::Stack(stack) => stack.push(frame),
            Free::Buddy(buddy) => buddy.dealloc(frame, 1),
        }
    }
}

impl Space {
    const START: usize = 0x7000_0000_0000;

    fn new(nr_pages: usize, frames: Frames) -> Space {
        let memory = Memory::new(nr_pages, frames);
        let table = Table::try_new().expect("the first table of an arena");
        Space { areas: MemorySet::new(), table, memory }
    }

    fn round(&mut self, nr_pages: usize) {
        let size = nr_pages * PAGE;
        let flags = MappingFlags::READ | MappingFlags::WRITE | MappingFlags::USER;
        let area = MemoryArea::new(Space::START, size, flags, Lazy);
        self.areas.map(area, &mut self.memory, &mut self.table, false).expect("the space is empty");
        for page in 0..nr_pages {
            self.touch(Space::START + page * PAGE);
        }
        self.areas
            .unmap(Space::START, size, &mut self.memory, &mut self.table)
            .expect("everything was touched");
    }

    /// A write fault and the write.
    fn touch(&mut self, address: usize) {
        let area = self.areas.find(black_box(address)).expect("the address is mapped");
        let flags = area.flags();
        assert!(flags.contains(MappingFlags::WRITE));
        let frame = self.memory.take();
        self.memory.frames[frame].zero();
        self.table
            .cursor()
            .map(VirtAddr::from(address), PhysAddr::from(DATA + frame * PAGE), PageSize::Size4K, flags)
            .expect("the page was not mapped");
        self.memory.frames[frame].0[address % PAGE] = 1;
    }
}

/// A mapping that is filled by its faults.
#[derive(Clone)]
struct Lazy;

impl MappingBackend for Lazy {
    type Addr = usize;
    type Flags = MappingFlags;
    type MutationContext = Memory;
    type PageTable = Table;

    fn map(&self, _: usize, _: usize, _: MappingFlags, _: &mut Memory, _: &mut Table) -> bool {
        true
    }

    fn unmap(&self, start: usize, size: usize, memory: &mut Memory, table: &mut Table) -> bool {
        let mut cursor = table.cursor();
        (start..start + size).step_by(PAGE).all(|address| {
            let Ok((frame, ..)) = cursor.unmap(VirtAddr::from(address)) else { return false };
            memory.give((frame.as_usize() - DATA) / PAGE);
            true
        })
    }

    fn protect(&self, _: usize, _: usize, _: MappingFlags, _: &mut Memory, _: &mut Table) -> bool {
        false
    }

    fn split(&mut self, _: usize) -> Option<Lazy> {
        Some(Lazy)
    }
}

/// x86-64 paging whose flush does nothing.
struct FourLevels;

impl PagingMetaData for FourLevels {
    const LEVELS: usize = 4;
    const PA_MAX_BITS: usize = 52;
    const VA_MAX_BITS: usize = 48;
    type VirtAddr = VirtAddr;

    fn flush_tlb(address: Option<VirtAddr>) {
        black_box(address);
    }
}

/// Page-table pages: host memory that only the page table ever touches, by its address.
struct HostTables;

thread_local! {
    /// The free ones of this thread, by address. They are never given back to the host.
    static TABLES: RefCell<Vec<usize>> = RefCell::new(fresh_tables());
}

fn fresh_tables() -> Vec<usize> {
    let tables = Box::leak(vec![Frame([0xA5; PAGE]); NR_TABLES].into_boxed_slice());
    // Exposed: the page table makes pointers of these addresses.
    tables.iter_mut().map(|table| std::ptr::from_mut(table).expose_provenance()).collect()
}

impl PagingHandler for HostTables {
    fn alloc_frames(num: usize, align: usize) -> Option<PhysAddr> {
        assert_eq!((num, align), (1, PAGE));
        TABLES.with_borrow_mut(Vec::pop).map(PhysAddr::from)
    }

    fn dealloc_frames(address: PhysAddr, num: usize) {
        assert_eq!(num, 1);
        TABLES.with_borrow_mut(|tables| tables.push(address.as_usize()));
    }

    fn phys_to_virt(address: PhysAddr) -> VirtAddr {
        VirtAddr::from(address.as_usize())
    }
}

#[cfg(test)]
#[path = "tests/spaces.rs"]
mod tests;
