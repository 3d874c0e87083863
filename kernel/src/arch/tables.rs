//! The kernel's own mappings, made with the library's tables out of the library's frames. `space` has the
//! drawing.
//!
//! Every right is the least: text is executable and not writable, constants are neither, nothing writable can
//! be executed. RAM is seen in the direct map in the largest pages that fit, except for the image, which is
//! seen only where it is linked.

use super::space::{self, APIC_FRAME, APIC_PAGE, DIRECT_MAP, ImagePart};
use super::thread::{MAX_THREADS, STACK_BYTES, Thread};
use super::{Metal, Once};
use core::ops::Range;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering::*};
use interleaf::frame::{AllocRequest, Memory, Priority};
use interleaf::machine::{CacheType, Entry, Leaf};
use interleaf::table::{LockedTable, PageTable};
use interleaf::units::{Level, PAGE_SIZE, PageSize, Pfn, PhysAddr, Rights, VirtAddr, Vpn};

/// The library has no frame left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

/// The kernel's tables, under construction or in use.
#[derive(Clone, Copy)]
struct Kernel<'m> {
    memory: &'m Memory<'m, Metal>,
    table: &'m PageTable<'m, Metal>,
}

/// States of a stack: not or partly mapped, being mapped, mapped.
const UNMAPPED: u8 = 0;
const AT_WORK: u8 = 1;
const MAPPED: u8 = 2;
/// The state of each thread's stack.
static STACKS: [AtomicU8; MAX_THREADS] = [const { AtomicU8::new(UNMAPPED) }; MAX_THREADS];
/// The tables, once there are any.
static TABLES: Once<PageTable<'static, Metal>> = Once::new();

/// Makes the tables and loads them: the image, usable memory, the interrupt controller's page, and room for
/// stacks.
///
/// # Errors
/// Where the library has no frames left for them.
pub fn build(
    memory: &'static Memory<'static, Metal>,
    ram: &[Range<u64>],
    giant: bool,
) -> Result<(), NoMemory> {
    let root = memory.alloc_table(Priority::Normal).ok_or(NoMemory)?;
    // Any CPU may edit these tables, so no CPU owns their locks.
    let kernel = Kernel { memory, table: TABLES.set(PageTable::of_all_cpus(memory, root)) };
    let root = kernel.table.root();
    for (part, range) in space::image_parts() {
        kernel.map_image(part, range)?;
    }
    for range in ram {
        kernel.map_ram(range.clone(), giant)?;
    }
    let device = leaf(APIC_FRAME.pfn(), Rights::READ | Rights::WRITE).cached_as(CacheType::Device);
    // SAFETY: the registers of this CPU's interrupt controller, which only `apic` uses.
    unsafe { kernel.map(VirtAddr(APIC_PAGE as u64).vpn(), PageSize::Base, device)? };
    // The table below the root must be there before roots of spaces copy it; stacks come later.
    drop(kernel.table_for(VirtAddr(space::STACKS as u64).vpn(), Level::Pud)?);
    // SAFETY: the lines above have mapped the image where it is linked, memory in the direct map, and the
    // controller. The tables are never given back (`TABLES`), and only stacks are added to them.
    unsafe { space::adopt(root) };
    Ok(())
}

/// An entry with these rights, for the kernel alone. Marked used, so that no walker has to write it.
fn leaf(pfn: Pfn, rights: Rights) -> Leaf {
    Leaf::new(pfn, rights).used(true)
}

impl<'m> Kernel<'m> {
    fn map_image(&self, part: ImagePart, range: Range<usize>) -> Result<(), NoMemory> {
        let rights = match part {
            ImagePart::Text => Rights::READ | Rights::EXECUTE,
            ImagePart::Constants => Rights::READ,
            ImagePart::Data => Rights::READ | Rights::WRITE,
        };
        for page in range.step_by(PAGE_SIZE).filter(|&page| !space::is_guard(page)) {
            let to = leaf(space::image_frame(page), rights);
            // SAFETY: the image's own frame, where it is linked, with the rights of its section.
            unsafe { self.map(VirtAddr(page as u64).vpn(), PageSize::Base, to)? };
        }
        Ok(())
    }

    /// The range in the direct map; parts of pages at its ends are left out.
    fn map_ram(&self, range: Range<u64>, giant: bool) -> Result<(), NoMemory> {
        let sizes = if giant { &[PageSize::Giant, PageSize::Huge][..] } else { &[PageSize::Huge] };
        let mut at = range.start.next_multiple_of(PAGE_SIZE as u64);
        let end = range.end & !(PAGE_SIZE as u64 - 1);
        assert!(end <= space::DIRECT_BYTES, "memory up to {end:#x} does not fit the direct map");
        while at < end {
            let fits = |size: &&PageSize| at.is_multiple_of(size.bytes()) && at + size.bytes() <= end;
            let size = sizes.iter().find(fits).copied().unwrap_or(PageSize::Base);
            let to = leaf(PhysAddr(at).pfn(), Rights::READ | Rights::WRITE);
            // SAFETY: the direct map is the machine's window (Machine, rule 1), for the kernel alone;
            // which bytes of it are used by what, their owners say.
            unsafe { self.map(VirtAddr(DIRECT_MAP as u64 + at).vpn(), size, to)? };
            at += size.bytes();
        }
        Ok(())
    }

    /// Puts one entry in, and the tables on the way.
    ///
    /// # Safety
    /// The kernel may access the memory as the leaf allows, for ever, and nothing is mapped there yet.
    unsafe fn map(&self, page: Vpn, size: PageSize, to: Leaf) -> Result<(), NoMemory> {
        let mut table = self.table_for(page, size.level())?;
        // SAFETY: as the caller says (1); a leaf (2), not owned (3).
        unsafe { table.set_entry(size.level().index(page), Entry::Leaf(to)) };
        Ok(())
    }

    /// The table of `level` on the way to `page`, locked; those that are missing are linked.
    fn table_for(&self, page: Vpn, level: Level) -> Result<LockedTable<'m, Metal>, NoMemory> {
        let mut table = self.table.top().lock().ok_or(NoMemory)?;
        while table.level() > level {
            let slot = table.level().index(page);
            if table.entry(slot) == Entry::Absent {
                let next = self.memory.alloc_table(Priority::Normal).ok_or(NoMemory)?;
                table.link(slot, next).map_err(|_| NoMemory)?;
                TAKEN.fetch_add(1, Relaxed);
            }
            let child = table.child(slot).and_then(|child| child.lock_below(&table));
            table = child.ok_or(NoMemory)?;
        }
        Ok(table)
    }
}

/// Frames that stacks have taken since boot, their tables included.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Frames that the kernel has taken for itself since boot: the library has handed them out, and will not get
/// them back.
pub fn taken_since_boot() -> u64 {
    TAKEN.load(Relaxed)
}

/// Maps a thread's stack in frames of `memory`, which stays mapped for the threads that have the number
/// later. `None` where there is no memory.
pub fn map_stack(memory: &'static Memory<'static, Metal>, thread: usize) -> Option<()> {
    match STACKS[thread].compare_exchange(UNMAPPED, AT_WORK, Acquire, Acquire) {
        Ok(_) => {}
        Err(state) => return (state == MAPPED).then_some(()),
    }
    let done = map_pages(memory, Thread::stack_of(thread));
    STACKS[thread].store(if done.is_some() { MAPPED } else { UNMAPPED }, Release);
    done
}

/// Maps pages that are not mapped yet; no other caller maps them.
fn map_pages(memory: &'static Memory<'static, Metal>, range: Range<usize>) -> Option<()> {
    let kernel = Kernel { memory, table: TABLES.get() };
    for page in range.step_by(PAGE_SIZE).filter(|&page| !space::is_mapped(page..page + 1)) {
        let pfn = memory.alloc_frame(AllocRequest::ZEROED)?.into_pfn();
        TAKEN.fetch_add(1, Relaxed);
        let to = leaf(pfn, Rights::READ | Rights::WRITE);
        // SAFETY: a frame that was just allocated and is never freed, for this page alone, which is not
        // mapped.
        unsafe { kernel.map(VirtAddr(page as u64).vpn(), PageSize::Base, to).ok()? };
    }
    Some(())
}

const _: () = assert!(STACK_BYTES.is_multiple_of(PAGE_SIZE));
