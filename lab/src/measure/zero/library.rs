//! The seed's programs on our address space: what they take of memory, tables and faults.
//!
//! The machine is software, so times say less than counts: a walk of tables costs here what a miss of the TLB
//! costs on hardware, and caches are the host's.

use super::ZeroPage;
use super::pattern::{HUGE, PAGE, Pattern};
use crate::error::Failure;
use crate::machine::host::{TaskSpace, with_switch_notifier};
use crate::machine::soft::Signal;
use crate::measure::Options;
use crate::measure::timed_machine::{self, TimedMachine};
use interleaf::space::{AddressSpace, Counter, Fault, Layout, MapRequest, Path, Vm, VmOptions};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, VirtAddr, Vpn};
use interleaf::vma::{HugePolicy, ZeroPagePolicy};
use serde::Serialize;
use std::time::Instant;

/// What a program does with its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Reads a byte of each page, once.
    Read,
    /// Compares the halves.
    Compare,
    /// Compares a byte of each page of both halves.
    BytePerPage,
    /// Reads a byte of each page, and writes to the first two fifths: as the Fourier transforms of the seed,
    /// which took 2.5 times the memory where reading allocated it.
    Fourier,
}

impl Program {
    /// All of them, as they are shown.
    pub const ALL: [Program; 4] = [Program::Read, Program::Fourier, Program::Compare, Program::BytePerPage];

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Program::Read => "read once",
            Program::Compare => Pattern::CompareHalves.name(),
            Program::BytePerPage => Pattern::BytePerPage.name(),
            Program::Fourier => "read, two fifths written",
        }
    }

    /// Whether it runs over all the memory, or over what is touched once.
    const fn is_large(self) -> bool {
        matches!(self, Program::Compare | Program::BytePerPage)
    }
}

/// One program with one kind of zero page.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LibraryRow {
    /// What it does.
    pub program: &'static str,
    /// What its loads find.
    pub zero_page: ZeroPage,
    /// Bytes that it maps.
    pub bytes: u64,
    /// From the first access to the last.
    pub ms: f64,
    /// Page faults.
    pub faults: u64,
    /// Frames allocated meanwhile: memory, zero pages and tables.
    pub frames: u64,
    /// Bytes of tables linked meanwhile.
    pub table_bytes: u64,
    /// Bytes that are resident as Linux counts them: without zero pages.
    pub resident_bytes: u64,
    /// Huge zero pages allocated, or tables in their place.
    pub huge_zero_pages: u64,
}

/// Bytes above which memory of its own is not compared: it is all allocated.
const MOST_OWNED: u64 = 1 << 30;

/// All programs with one kind of zero page.
pub fn rows(kind: ZeroPage, memory: u64, touched: u64) -> Result<Vec<LibraryRow>, Failure> {
    let bytes = |program: Program| if program.is_large() { memory } else { touched };
    let fits = |program: &Program| kind != ZeroPage::None || bytes(*program) <= MOST_OWNED;
    let rows = Program::ALL.into_iter().filter(fits);
    rows.map(|program| measure(program, kind, bytes(program))).collect()
}

const fn policy_of(kind: ZeroPage) -> ZeroPagePolicy {
    match kind {
        ZeroPage::Huge => ZeroPagePolicy::Huge,
        ZeroPage::Virtual => ZeroPagePolicy::Virtual,
        ZeroPage::Small => ZeroPagePolicy::Small,
        ZeroPage::None => ZeroPagePolicy::None,
    }
}

/// One program over `bytes` bytes.
///
/// # Errors
/// What the host or the library says.
pub fn measure(program: Program, kind: ZeroPage, bytes: u64) -> Result<LibraryRow, Failure> {
    let owned = if kind == ZeroPage::None { bytes } else { bytes / 2 * u64::from(!program.is_large()) };
    let options = Options::full();
    let machine = timed_machine::machine(&options, (owned + bytes / 512) / PAGE + 16 * 1024)?;
    let _entered = machine.enter(CpuId(0));
    let (huge_pages, zero_page) = (HugePolicy::Always, policy_of(kind));
    let options = VmOptions { huge_pages, zero_page, ..VmOptions::default() };
    let memory = timed_machine::boot_map(&machine)?.claim(&machine).map_err(Failure::of)?;
    let vm = Vm::start(memory, options).map_err(Failure::of)?;
    let space = AddressSpace::new(&vm, Layout::linux::<X86_64>().overcommit(), Path::Speculative)
        .map_err(Failure::of)?;
    let mapped = space.map(&MapRequest::anonymous(bytes + 2 * HUGE)).map_err(Failure::of)?;
    let base = VirtAddr(mapped.0.next_multiple_of(HUGE));
    let (totals, frames) = (vm.totals(), vm.memory().stats().allocated());
    let started = Instant::now();
    let running = TaskSpace::new(&space);
    with_switch_notifier(&running, || run(program, &machine, &space, base, bytes))?;
    let ms = started.elapsed().as_secs_f64() * 1e3;
    let since = vm.totals().since(&totals);
    let zero = vm.memory().zero_frame();
    let is_resident = |page: &u64| {
        let frame = space.inspect().resident_frame(Vpn(base.vpn().0 + page));
        frame.is_some_and(|(pfn, _)| pfn != zero)
    };
    let resident = (0..(bytes + HUGE) / PAGE).filter(is_resident).count() as u64;
    Ok(LibraryRow {
        program: program.name(),
        zero_page: kind,
        bytes,
        ms,
        faults: since.get(Counter::PgFault),
        frames: vm.memory().stats().allocated() - frames,
        table_bytes: (since.get(Counter::TableAlloc) - since.get(Counter::TableFree)) * PAGE,
        resident_bytes: resident * PAGE,
        huge_zero_pages: since.get(Counter::ThpZeroPageAlloc),
    })
}

/// Where the byte at an offset lies: a huge page that is not touched is between the halves, since pages at
/// equal offsets in halves of a power of two would evict each other from the software machine's TLB.
const fn place(base: VirtAddr, bytes: u64, at: u64) -> VirtAddr {
    VirtAddr(base.0 + at + if at < bytes / 2 { 0 } else { HUGE })
}

fn run(
    program: Program,
    machine: &TimedMachine,
    space: &AddressSpace<'_, TimedMachine>,
    base: VirtAddr,
    bytes: u64,
) -> Result<(), Failure> {
    let faults = |addr: VirtAddr, access: Access| {
        space.fault(Fault { addr, access }).map(|_| ()).map_err(|_| Signal::Segv)
    };
    let mut result = Ok(());
    let mut load = |at: u64| match machine.read_u64(place(base, bytes, at), &faults) {
        Ok(0) => {}
        Ok(_) => result = Err(Failure::check("untouched memory is not zero")),
        Err(signal) => result = Err(Failure::of(signal)),
    };
    match program {
        Program::Read | Program::Fourier => (0..bytes).step_by(PAGE as usize).for_each(&mut load),
        Program::Compare => Pattern::CompareHalves.round(bytes, &mut load),
        Program::BytePerPage => Pattern::BytePerPage.round(bytes, &mut load),
    }
    result?;
    if program == Program::Fourier {
        for at in (0..bytes / 5 * 2).step_by(PAGE as usize) {
            machine.write_u64(place(base, bytes, at), 1, &faults).map_err(Failure::of)?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "tests/library.rs"]
mod tests;
