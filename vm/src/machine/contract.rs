//! The contract of the platform: memory, MMU and interrupts.

use super::{Cpu, FlushRange, Format, RootTable, word_copy};
use crate::units::{
    CpuId, CpuMask, Level, NodeId, Order, PAGE_SHIFT, PAGE_SIZE, Pfn, PfnRange, PhysAddr, Vpn, VpnRange,
};
use core::cell::UnsafeCell;
use core::ptr::NonNull;
use core::sync::atomic::{Ordering::SeqCst, fence};

/// What a default says that needs an MMU.
const NO_MMU: &str = "this platform has no MMU";
/// What a default for one CPU says on a machine of several.
const SEVERAL_CPUS: &str = "a platform of several CPUs lacks";

/// Storage of a table: 512 entries. It gives no access; `table::Table` accesses it through the door.
#[repr(C, align(4096))]
#[derive(Debug)]
pub struct TablePage {
    /// The words; reached only through the door's atomics.
    pub words: [UnsafeCell<u64>; Level::ENTRIES],
}

/// A function that a machine calls on an interrupt ([`Machine::set_interrupt_handler`]) or on a helper's
/// start ([`Machine::set_helper_handler`]): `call(machine, data)`.
///
/// As the handler of an interrupt it never blocks, takes no lock that is held across an acknowledgement,
/// allocates nothing, leaves preemption and the space of the CPU as they are, and may run at any point where
/// interrupts are on, also inside [`Cpu::relax`].
/// `sync::Registration` makes one safely.
pub struct Callback<M> {
    /// The function; safe to call with this `data`, on any CPU, by the machine that it was set in, until it
    /// is removed.
    pub call: unsafe fn(machine: &M, data: usize),
    /// Its argument: an address whose provenance is exposed.
    pub data: usize,
}

impl<M> Clone for Callback<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Callback<M> {}

impl<M> core::fmt::Debug for Callback<M> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "callback with {:#x}", self.data)
    }
}

/// A platform: physical memory, MMU, and interrupts between CPUs.
///
/// # Safety
///
/// The library reads and writes frames through the pointers that this trait returns, and relies on the flush
/// methods. Methods with a body are right for a machine of one CPU that runs no space: such a machine has to
/// say only where its memory is. The others are checked: a default that needs more panics. An implementation
/// guarantees:
///
/// 1. [`window`](Machine::window) of an address inside memory given to the library points to memory that
///    stays readable and writable, at that place, for the life of the machine, for all of the physically
///    contiguous region given, and two physical addresses never share a byte. [`phys_of`](Machine::phys_of)
///    is its inverse.
/// 2. [`table`](Machine::table) is the same memory, seen as entries.
/// 3. After `flush_*` returns, this CPU uses no translation of the range cached from the loaded root before
///    the call, upper levels included, and notices table entries written before the call. Unless the format
///    [remembers refusals](Format::REMEMBERS_REFUSALS), so it is for a page after an access was refused.
/// 4. [`interrupt`](Machine::interrupt) makes every CPU in the set run the interrupt handler after the call,
///    soon, unless it has interrupts off (then as soon as they are on), or idles in a state that it leaves by
///    calling the handler itself.
/// 5. [`barrier_all`](Machine::barrier_all) orders as if every CPU had executed `fence(SeqCst)` between its
///    start and its return, of this machine and of all others whose [`Cpu`](Machine::Cpu) is the same type.
/// 6. `zero`, `zero_nontemporal`, `copy`, `copy_out` and `copy_in` access only the memory named.
/// 7. Handlers get a reference to the machine that they were set in, wherever it lies then; none runs once
///    the machine is dropped. Each of the two has one owner: a handler that is set is never replaced by
///    another; its owner removes it. Each helper runs the handler that
///    [`set_helper_handler`](Machine::set_helper_handler) sets, on its own CPU; once
///    `set_helper_handler(None)` has returned, no helper runs it.
/// 8. [`claim_memory`](Machine::claim_memory) returns true only for frames of RAM that `window` covers and
///    that nothing else uses, and at most once for each frame, as long as a reference to the machine lives.
///    An exclusive reference, `&mut`, may make frames claimable again once no handler is set.
/// 9. [`loaded_root`](Machine::loaded_root) returns a frame only while this CPU translates through the root
///    in it.
/// 10. A [record window](Machine::reserve_record_window) stays at its place as long as a reference to the
///     machine lives, and shares no address with other memory. Where frames were mapped it shows them, on
///     every CPU, readable and writable; elsewhere it reads as zeroes.
pub unsafe trait Machine: Sync + Sized {
    /// The operations of the CPU that runs the code.
    type Cpu: Cpu;
    /// The layout of table entries.
    type Format: Format;

    /// Number of CPUs; ids are below it. The default is one CPU.
    fn nr_cpus(&self) -> u32 {
        1
    }

    /// Where the library reads and writes the byte at `at`.
    fn window(&self, at: PhysAddr) -> NonNull<u8>;
    /// The physical address of a byte of the window.
    fn phys_of(&self, at: NonNull<u8>) -> PhysAddr;
    /// The frame `pfn`, seen as a table.
    ///
    /// # Safety
    /// The frame is memory of the machine: memory that the library was given, or that a caller knows to be
    /// there.
    #[inline(always)]
    unsafe fn table(&self, pfn: Pfn) -> &TablePage {
        // SAFETY: by the caller's promise the frame is memory of the machine, which the window shows for the
        // machine's life (rule 1); a frame is aligned, and a `TablePage` gives no access by itself.
        unsafe { self.window(pfn.addr()).cast().as_ref() }
    }

    /// Gives the library frames, for good: `frames` are disjoint. False, and nothing is given, where one of
    /// them is no memory, is in use, or has been given before.
    fn claim_memory(&self, frames: &[PfnRange]) -> bool;

    /// Fills a block with zero bytes.
    ///
    /// # Safety
    /// The frames are memory given to the library, and the caller's: no other code uses them meanwhile, or
    /// borrows from them.
    unsafe fn zero(&self, pfn: Pfn, order: Order) {
        // SAFETY: the frames are memory that was given to the library, which the window shows in one piece
        // (rule 1), and the caller's.
        unsafe { self.window(pfn.addr()).write_bytes(0, order.bytes()) };
    }
    /// Fills whole pages with zero bytes that are not read soon: by non-temporal stores, which go past the
    /// caches, if the machine has them. They are ordered before everything that this CPU stores afterwards.
    ///
    /// # Safety
    /// The bytes lie in the [window](Machine::window), or behind mapped frames of a
    /// [record window](Machine::reserve_record_window). They are aligned to 4096 and a multiple of that, in
    /// memory given to the library, and the caller's, as for [`zero`](Machine::zero).
    unsafe fn zero_nontemporal(&self, at: NonNull<u8>, len_bytes: usize) {
        // SAFETY: the bytes are readable and writable (rules 1 and 10), and the caller's.
        unsafe { at.write_bytes(0, len_bytes) };
    }

    /// Reserves a *record window*: `len_bytes` addresses, of nothing else, behind which the platform puts
    /// frames of the library's choice. The frame records lie there, so that they are one array and each page
    /// of it still lies on the node of the frames that it describes. `len_bytes` is a multiple of
    /// [`RECORD_WINDOW_ALIGN`](Machine::RECORD_WINDOW_ALIGN), to which the result is aligned. `None` where
    /// the platform has no such window: then the records lie in one piece of one node's memory. Called at
    /// most once for each claim of memory, at start, on one CPU.
    fn reserve_record_window(&self, len_bytes: usize) -> Option<NonNull<u8>> {
        let _ = len_bytes;
        None
    }
    /// Puts `frames` behind a record window, from `at` on; their bytes stay as they are. Where both are as
    /// far from a multiple of [`RECORD_WINDOW_ALIGN`](Machine::RECORD_WINDOW_ALIGN), large pages can map
    /// them. The platform takes frames for its tables from `take_frame`, for good. False where these do not
    /// suffice.
    ///
    /// # Safety
    /// `at` is a page of a reserved record window, which is as long from there on and shows no frames there
    /// yet. The frames are memory given to the library, and the caller's; from now on the caller reaches
    /// them by the record window only, and never gives them up.
    unsafe fn map_record_window(
        &self,
        at: NonNull<u8>,
        frames: PfnRange,
        take_frame: &mut dyn FnMut() -> Option<Pfn>,
    ) -> bool {
        let _ = (at, frames, take_frame);
        false
    }
    /// Alignment of record windows, in bytes: a power of two from 4096 on, the size of the pages that the
    /// platform would map them with.
    const RECORD_WINDOW_ALIGN: usize = PAGE_SIZE * Level::ENTRIES;
    /// Copies a block. Bytes that others write meanwhile are copied as they were before or after; another
    /// CPU's [`copy_in`](Machine::copy_in) is one of those others. The default copies by atomic words; a
    /// platform overrides it by an instruction that the compiler knows nothing of.
    ///
    /// # Safety
    /// As for [`zero`](Machine::zero), of the frames copied to; those copied from are memory given to the
    /// library, in which no code has a Rust object.
    unsafe fn copy(&self, from: Pfn, to: Pfn, order: Order) {
        let (from, to) = (self.window(from.addr()), self.window(to.addr()));
        // SAFETY: as in `zero`, of both blocks, which are aligned. Beside this call the library reaches the
        // first one by `copy`, `copy_out` and `copy_in` alone, whose defaults go through the same module; a
        // platform that overrides one does so by an instruction, which is no access of Rust's.
        unsafe { word_copy::copy_words(from, to, order.bytes() / size_of::<u64>()) };
    }

    /// Copies bytes of a frame to the library. Those that programs, devices or other CPUs'
    /// [`copy_in`](Machine::copy_in) write meanwhile are copied as they were before or after.
    ///
    /// # Safety
    /// The bytes lie in one frame, of memory given to the library, in which no code has a Rust object.
    unsafe fn copy_out(&self, from: PhysAddr, to: &mut [u8]) {
        // SAFETY: the window shows the frame (rule 1), which is aligned, so words around the bytes lie in it;
        // the rest as in `copy`.
        unsafe { word_copy::copy_out(self.window(from), to) };
    }
    /// Copies bytes to a frame, which programs, devices and other CPUs' copies may read and write meanwhile.
    ///
    /// # Safety
    /// As for [`copy_out`](Machine::copy_out), of the bytes copied to.
    unsafe fn copy_in(&self, from: &[u8], to: PhysAddr) {
        // SAFETY: as in `copy_out`.
        unsafe { word_copy::copy_in(from, self.window(to)) };
    }

    /// Makes this CPU translate through `root`, or through no root of the library. Implies
    /// [`flush_all`](Machine::flush_all). Preemption is off. The interrupt handler calls it as well, with
    /// `None`, on a CPU that keeps a space without running it.
    ///
    /// Slots of the root that cover no user address are the platform's: it may write its own half there, now
    /// and as long as the root is loaded anywhere. The library neither reads nor writes them, and frees a
    /// root as dirty.
    ///
    /// # Panics
    /// The default: a platform without an MMU runs no space.
    fn load_root(&self, root: Option<RootTable>) {
        panic!("{NO_MMU}: it cannot load {root:?}");
    }
    /// The frame of the root that this CPU translates through: what [`load_root`](Machine::load_root) was
    /// given last. `None` where that was none, or the platform cannot tell. May be called anywhere, in an
    /// NMI and in the middle of `load_root` too: there it says the old root only as long as this CPU still
    /// translates through it, and the new one only from where it does. Interrupts are off.
    fn loaded_root(&self) -> Option<Pfn> {
        None
    }
    /// Drops cached translations of the range on this CPU, whatever sizes cover it: that of a huge leaf
    /// goes as a whole where the range holds one page of it. Preemption is off.
    ///
    /// # Panics
    /// The default, as [`load_root`](Machine::load_root).
    fn flush_range(&self, range: VpnRange) {
        panic!("{NO_MMU}: it cannot flush {range:?}");
    }
    /// Drops all cached translations on this CPU. Preemption is off. The default flushes the range of all
    /// pages.
    fn flush_all(&self) {
        self.flush_range(VpnRange::new(Vpn(0), Vpn(u64::MAX >> PAGE_SHIFT)));
    }
    /// Hears of each flush of the translations of a space, which it knows by its number: after entries have
    /// changed, before what they mapped is free, and before the call that changed them returns. A platform
    /// that copies translations, for a device or a guest, drops those of [`pages`](FlushRange::pages). At the
    /// end of a space these are all, and this is called before entries change: nothing of the space is copied
    /// from then on. Free unless overridden.
    ///
    /// May be called on several CPUs at once. Unless [`may_cut`](FlushRange::may_cut) is set, the lock of a
    /// table may be held: then it neither waits nor calls the library. Where it is set, it may wait, but for
    /// no flush of this space.
    #[inline(always)]
    fn note_flush(&self, space: u64, flush: FlushRange) {
        let _ = (space, flush);
    }

    /// Sets the handler that CPUs run when interrupted. False, and no change, where one is set already: it
    /// belongs to the system that has set it. `None` removes the one that is set, and is called by its owner,
    /// or by the holder of the machine's `&mut`; once that has returned no CPU begins to run it.
    ///
    /// The default is for one CPU, which no other interrupts: it keeps no handler, and so refuses none. Where
    /// memory is claimed once there is one system anyway; else a platform that runs spaces keeps whether a
    /// handler is set, as two systems would both take the root for their own.
    ///
    /// # Panics
    /// The default, on a machine of several CPUs.
    ///
    /// # Safety
    /// The function may be called with its data, as [`Callback::call`] says, until it is removed or the
    /// machine is dropped.
    #[must_use = "a handler that is refused never runs"]
    unsafe fn set_interrupt_handler(&self, handler: Option<Callback<Self>>) -> bool {
        assert!(self.nr_cpus() <= 1, "{SEVERAL_CPUS} {handler:?}");
        true
    }
    /// Has each CPU of the set run the interrupt handler. A flush waits for the answer: a CPU that idles, or
    /// whose thread sleeps, with a space loaded answers meanwhile, or has left the space before. The default
    /// is for one CPU, which the library never has interrupt itself.
    ///
    /// # Panics
    /// The default, where a CPU is named.
    fn interrupt(&self, targets: &CpuMask) {
        assert!(targets.is_empty(), "{SEVERAL_CPUS} an interrupt to {targets:?}");
    }
    /// A full fence on every CPU. The default is for one CPU.
    ///
    /// # Panics
    /// The default, on a machine of several CPUs.
    fn barrier_all(&self) {
        assert!(self.nr_cpus() <= 1, "{SEVERAL_CPUS} a barrier");
        fence(SeqCst);
    }

    /// The NUMA node that a CPU belongs to.
    fn node_of(&self, cpu: CpuId) -> NodeId {
        let _ = cpu;
        NodeId(0)
    }
    /// Distance of memory of node `to` from CPUs of node `from`, as firmware says: only the order of
    /// distances is used. ACPI's tables call a node's distance from itself 10.
    fn distance(&self, from: NodeId, to: NodeId) -> u32 {
        if from == to { 10 } else { 20 }
    }
    /// Sets the handler that helpers run, or removes it and waits until no helper runs it. The handler
    /// returns when the library stops it, which it does before it calls this with `None`. False, and no
    /// change, where one is set already, as for
    /// [`set_interrupt_handler`](Machine::set_interrupt_handler).
    ///
    /// A *helper* is a thread of the platform that exists before it is needed: at most one for each CPU,
    /// bound to it, with the lowest priority the platform has but while it is expedited
    /// ([`Cpu::expedite_helper`]), in a context that holds nothing; it may sleep. It runs each handler once.
    /// When the handler unwinds, the helper may run it again. A platform without helpers leaves this as it
    /// is: jobs are then done by their callers.
    ///
    /// # Safety
    /// As for [`set_interrupt_handler`](Machine::set_interrupt_handler).
    #[must_use = "a handler that is refused never runs"]
    unsafe fn set_helper_handler(&self, handler: Option<Callback<Self>>) -> bool {
        let _ = handler;
        true
    }
    /// Takes out of `helpers`, all CPUs of the machine, those whose helpers may not work for the running
    /// thread: its group's CPU set lacks them, its quota is spent, or their CPUs have other work. The thread
    /// calls this when it publishes a job or opens an ordered queue; what it says holds for that one. Returns
    /// soon.
    fn restrict_helpers(&self, helpers: &mut CpuMask) {
        let _ = helpers;
    }

    /// Tracing: reports an event. Free unless overridden. It may be called with any lock held and in a read
    /// section, so it calls nothing of the library.
    #[inline(always)]
    fn event(&self, name: &'static str, value: u64) {
        let _ = (name, value);
    }
}

const _: () = assert!(size_of::<TablePage>() == crate::units::PAGE_SIZE);
