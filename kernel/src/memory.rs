//! All memory becomes the library's.

use crate::arch::loader::Loader;
use crate::arch::{MACHINE, Metal, Once, registers, space};
use crate::{report, tables};
use core::ops::Range;
use interleaf::frame::BootMap;
use interleaf::space::Vm;
use interleaf_kernel::firmware::{self, MAX_ENTRIES, MapError};

/// The virtual-memory system.
static VM: Once<Vm<'static, Metal>> = Once::new();

/// The virtual-memory system.
#[inline]
pub fn vm() -> &'static Vm<'static, Metal> {
    VM.get()
}

/// Gives the library what the firmware calls usable, and translates through tables made with it.
pub fn init(loader: &Loader) {
    let refuse = |why: MapError| -> ! { report::refuse("the memory map", &why) };
    let nr_told = loader.nr_entries;
    if nr_told > MAX_ENTRIES {
        refuse(MapError::TooManyEntries(nr_told));
    }
    let (mut ram, mut nr_ram) = ([const { 0..0 }; MAX_ENTRIES], 0);
    let collected = firmware::each_usable(loader.entries(), |range| {
        ram[nr_ram] = range;
        nr_ram += 1;
    });
    collected.unwrap_or_else(|why| refuse(why));
    let ram = &ram[..nr_ram];
    let end = ram.iter().map(|range| range.end).max().unwrap_or(0);
    let reach = space::extend_boot_map(end);
    if reach < end {
        crate::say!("memory beyond {} GiB is left alone: this CPU has no pages of 1 GiB", reach >> 30);
    }
    let map = boot_map(loader, reach).unwrap_or_else(|why| refuse(why));
    let vm = Vm::new(&MACHINE, map).unwrap_or_else(|why| refuse(MapError::Boot(why)));
    let vm = VM.set(vm);
    let giant = registers::Features::of_this_cpu().giant_pages;
    let Ok(root) = tables::build(vm.memory(), ram, giant) else {
        report::refuse("memory", &"there is not enough for the kernel's own tables");
    };
    space::adopt(root);
}

/// The first MiB stays the firmware's and the trampoline's.
const FIRST_MIB: Range<u64> = 0..1 << 20;

fn boot_map(loader: &Loader, limit: u64) -> Result<BootMap, MapError> {
    let [info, list, line] = loader.own.clone();
    let taken = [FIRST_MIB, loader.module.clone(), info, list, line];
    firmware::boot_map(loader.entries(), &space::image_memory(), &taken, limit)
}

/// MiB that the library manages.
pub fn mib() -> u64 {
    vm().memory().stats().managed >> 8
}
