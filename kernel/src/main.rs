//! Interleaf's kernel: boots under QEMU, gives the library all memory, and runs one static program in ring 3,
//! or its own self-tests.
//!
//! ```text
//! qemu-system-x86_64 -accel tcg -M q35 -cpu max -smp N -m M -nodefaults -no-user-config -display none
//!     -no-reboot -serial stdio -debugcon file:/dev/stderr -device isa-debug-exit,iobase=0xf4,iosize=4
//!     -kernel interleaf-kernel [-initrd PROGRAM] [-append LINE]
//! ```
//!
//! `-initrd` is one static ELF program for ring 3. `-append` is the kernel's own options, then ` -- `, then
//! the program's argv.
//!
//! | option | meaning |
//! |---|---|
//! | `selftest=NAME` | runs a self-test instead of a program: see the table in `selftest` |
//! | `path=locked`, `path=vma-lock`, `path=speculative` | the path that page faults take |
//! | `start=whole` | all frame records are initialised before the first allocation |
//! | `start=deferred` | most frame records are initialised later, by all CPUs |
//! | `huge=never`, `huge=madvise`, `huge=always` | when private memory gets huge pages |
//! | `zero_page=huge`, `=virtual`, `=small`, `=none` | what a load of untouched memory finds there |
//! | `hugepages=N` | huge pages of 2 MiB that are set aside for the hugetlb pool |
//! | `pages_to_scan=N`, `scan_sleep_millisecs=N` | how khugepaged goes about it, by Linux's names |
//! | `count` | no timer: guest instructions are the program's and the kernel's alone |
//!
//! The serial line is the program's alone; the kernel's own lines go to the debug console (port 0xe9).
//!
//! A byte of the program's words that is no visible ASCII is `%` and two hexadecimal digits, and `%` alone is
//! an empty word.
//!
//! The machine ends through isa-debug-exit with a value `v`, which QEMU makes the status `v << 1 | 1`: 0x10
//! for an orderly end, whose exit code has been written to the debug console as its last line, `exit code N`;
//! 0x11 where the program cannot be loaded, 0x12 where frames were lost, 0x7f for a panic. A program that a
//! signal ends has the code 128 + its number.
//!
//! Built with `cargo build --profile kernel -p interleaf-kernel`, or `kernel-checked` for debug assertions.
//! With another profile this is an ordinary program that says so, so that `cargo build` and `cargo test` stay
//! ordinary.
//!
//! | floor | module | holds |
//! |---|---|---|
//! | 0 | `core`, in the library beside this program | parsers of the data of firmware, loader and files |
//! | 1 | `arch` | the machine: all `unsafe` code, the library's platform contract |
//! | 2 | `report` | reports that end the machine |
//! | 3 | `memory` | the virtual-memory system and the kernel's own mappings |
//! | 4 | `task` | threads, the program, its signals |
//! | 5 | `vfs` | the few files that there are: what Linux's tell of memory |
//! | 6 | `linux` | system calls |
//! | 7 | `selftest` | the kernel's own tests |
//!
//! A floor names only lower ones. Machine code calls the kernel above it through one file, `arch/upcalls.rs`.
#![cfg_attr(metal, no_std, no_main)]

#[cfg(metal)]
mod arch;
#[cfg(metal)]
mod linux;
#[cfg(metal)]
mod memory;
#[cfg(metal)]
mod report;
#[cfg(metal)]
mod selftest;
#[cfg(metal)]
mod task;
#[cfg(metal)]
mod vfs;

#[cfg(metal)]
pub use metal::main_of_boot_cpu;

#[cfg(not(metal))]
fn main() {
    eprintln!("this is no kernel yet: build it with --profile kernel, or say `interleaf boot`");
    std::process::exit(2);
}

#[cfg(metal)]
mod metal {
    use crate::arch::loader::{self, Loader, StartInfo};
    use crate::arch::{Core, MACHINE, boot, clock, console};
    use crate::task::program::NoCode;
    use crate::task::{khugepaged, program, sched};
    use crate::{memory, report, selftest};
    use interleaf::frame::RecordInit;
    use interleaf::machine::{Cpu, Machine};
    use interleaf_kernel::core::options::Options;

    /// How the machine ends, for isa-debug-exit.
    const ORDERLY: u8 = 0x10;
    const NOT_LOADED: u8 = 0x11;
    const LEAKED: u8 = 0x12;

    /// The order of booting.
    pub fn main_of_boot_cpu(start_info: StartInfo) -> ! {
        console::init();
        let loader = Loader::read(start_info).unwrap_or_else(|why| report::refuse("the loader", &why));
        let options = Options::parse(loader.line).unwrap_or_else(|word| {
            report::refuse("the command line", &format_args!("{word:?} means nothing"))
        });
        let nr_cpus = loader::nr_cpus().unwrap_or(1);
        MACHINE.set_nr_cpus(nr_cpus);
        let start = if options.whole { RecordInit::Eager } else { RecordInit::Deferred };
        memory::init(&loader, start, (options.huge, options.zero_page));
        boot::init_controller();
        clock::calibrate();
        clock::read_time_of_day();
        sched::begin(!options.count);
        boot::start_others(nr_cpus)
            .unwrap_or_else(|cpu| report::refuse("a CPU", &format_args!("{cpu:?} does not start")));
        memory::initialise(start);
        memory::set_huge_pool_aside(options.huge_pool);
        khugepaged::start(options.scan, options.huge.is_ever());
        crate::println!(
            "interleaf: {} CPUs, {} MiB, {} ms",
            nr_cpus,
            memory::mib(),
            Core::now_ns() / 1_000_000
        );
        let ended = match options.selftest {
            Some(name) => Ok(selftest::run(name, &options)),
            None if loader.module().is_empty() => Ok(selftest::run("all", &options)),
            None => program::run(loader.module(), &options),
        };
        report::longest_section(MACHINE.nr_cpus());
        match ended {
            Ok(code) => {
                console::report_code(code);
                console::exit(ORDERLY)
            }
            Err(NoCode::NotLoaded) => console::exit(NOT_LOADED),
            Err(NoCode::Leaked) => console::exit(LEAKED),
        }
    }
}
