//! A CPU that computes in ring 3, and neither calls the kernel nor idles, keeps no garbage for longer than
//! some ticks.
//!
//! ```text
//!   ring 3     binds itself to a CPU ─► maps, touches and unmaps ─► says so ─► computes until it may end
//!   this test                                       sees garbage ◄──────┘  ─► none is left: notes the time
//! ```

use super::world::{fail, load, map, page, store, with_space};
use crate::arch::spaces::{self, SpaceHandle};
use crate::arch::trap::Frame;
use crate::arch::{Core, MACHINE, thread, user};
use crate::memory;
use crate::task::program;
use crate::task::signal::Action;
use core::sync::atomic::{AtomicU64, Ordering::*};
use interleaf::machine::{Cpu, Machine};
use interleaf::units::{PAGE_SIZE, VirtAddr};
use interleaf::vma::VmaFlags;
use interleaf_kernel::core::options::Options;

/// r12 times a mapping of a page, touched and unmapped. r13 leads to three words: "it is done", "it may end",
/// and the CPU.
const CODE: [u8; 104] = [
    0x31, 0xff, // xor %edi, %edi
    0xbe, 0x08, 0x00, 0x00, 0x00, // mov $8, %esi
    0x49, 0x8d, 0x55, 0x10, // lea 16(%r13), %rdx
    0xb8, 0xcb, 0x00, 0x00, 0x00, // mov $203, %eax
    0x0f, 0x05, // syscall: sched_setaffinity
    0x31, 0xff, // xor %edi, %edi, where a cycle begins
    0xbe, 0x00, 0x10, 0x00, 0x00, // mov $4096, %esi
    0xba, 0x03, 0x00, 0x00, 0x00, // mov $3, %edx
    0x41, 0xba, 0x22, 0x00, 0x00, 0x00, // mov $0x22, %r10d
    0x49, 0xc7, 0xc0, 0xff, 0xff, 0xff, 0xff, // mov $-1, %r8
    0x45, 0x31, 0xc9, // xor %r9d, %r9d
    0xb8, 0x09, 0x00, 0x00, 0x00, // mov $9, %eax
    0x0f, 0x05, // syscall: mmap
    0x48, 0x89, 0xc7, // mov %rax, %rdi
    0xc6, 0x07, 0x01, // movb $1, (%rdi)
    0xbe, 0x00, 0x10, 0x00, 0x00, // mov $4096, %esi
    0xb8, 0x0b, 0x00, 0x00, 0x00, // mov $11, %eax
    0x0f, 0x05, // syscall: munmap
    0x49, 0xff, 0xcc, // dec %r12
    0x75, 0xc6, // jnz to the cycle
    0x49, 0xc7, 0x45, 0x00, 0x01, 0x00, 0x00, 0x00, // movq $1, 0(%r13)
    0xf3, 0x90, // pause, where it computes
    0x49, 0x83, 0x7d, 0x08, 0x00, // cmpq $0, 8(%r13)
    0x74, 0xf7, // je to the pause
    0x31, 0xff, // xor %edi, %edi
    0xb8, 0x3c, 0x00, 0x00, 0x00, // mov $60, %eax
    0x0f, 0x05, // syscall: exit
    0x0f, 0x0b, // ud2
];
/// Cycles: fewer than make a CPU poll for its own sake.
const CYCLES: u64 = 20;
/// Runs, of which the fastest counts: the host may stop an emulated CPU for long.
const ROUNDS: usize = 5;
/// Nanoseconds after which the garbage must be gone in the fastest: its age of 8 ms, four ticks, and as much
/// again.
const BOUND_NS: u64 = 32_000_000;
/// Nanoseconds after which it must be gone in each.
const PATIENCE_NS: u64 = 5_000_000_000;
/// Pages: code, the words, the stack.
const PAGES: u64 = 3;

/// The garbage of a CPU that computes goes away, and within the bound.
pub fn bound_the_age_of_garbage(options: &Options<'_>) -> bool {
    with_space(options, |space| {
        let base = map(space, PAGES);
        let code_written = spaces::in_space(space, || user::write(base, &CODE)).is_ok();
        let rights = VmaFlags::READ | VmaFlags::EXECUTE;
        if !code_written || space.protect(base, PAGE_SIZE as u64, rights).is_err() {
            return fail(format_args!("there is no code for ring 3"));
        }
        let mut best = Lap { objects: 0, took_ns: u64::MAX };
        for _ in 0..ROUNDS {
            let Some(round) = round(space, base) else {
                return fail(format_args!(
                    "a CPU that computes keeps garbage: {:?}",
                    memory::vm().garbage_stats()
                ));
            };
            if round.objects > 0 && round.took_ns < best.took_ns {
                best = round;
            }
        }
        let Lap { objects, took_ns } = best;
        crate::println!("a CPU that computes in ring 3: {objects} objects, gone after {} us", took_ns / 1000);
        took_ns < BOUND_NS || fail(format_args!("the bound is {} us", BOUND_NS / 1000))
    })
}

/// What was seen of one run of the code.
struct Lap {
    /// Garbage when the code had said so.
    objects: u64,
    /// Nanoseconds until there was none.
    took_ns: u64,
}

/// `None` where garbage stays.
fn round(space: &SpaceHandle, base: VirtAddr) -> Option<Lap> {
    let (words, nr) = (page(base, 1), MACHINE.nr_cpus());
    let word = |n: u64| VirtAddr(words.0 + 8 * n);
    let set = |n, value| store(word(n), value).expect("it is mapped, and there is memory");
    spaces::in_space(space, || {
        [0, 0, 1 << (nr - 1)].into_iter().zip(0..).for_each(|(value, n)| set(n, value))
    });
    let (objects, took_ns) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
    let watch = || {
        spaces::in_space(space, || {
            while load(word(0)) != Ok(1) {
                Core::yield_now();
            }
            let began_ns = Core::now_ns();
            objects.store(memory::vm().garbage(), Relaxed);
            while memory::vm().garbage() > 0 && Core::now_ns() - began_ns < PATIENCE_NS {
                // This CPU runs a kernel thread, for which no tick calls the library; on a machine of one
                // the program's ticks must suffice.
                if nr > 1 {
                    memory::tick();
                }
                Core::yield_now();
            }
            if memory::vm().garbage() == 0 {
                took_ns.store(Core::now_ns() - began_ns, Relaxed);
            }
            set(1, 1);
        })
    };
    let run = || {
        let mut frame = Frame::at_start(base, page(base, PAGES));
        (frame.r12, frame.r13) = (CYCLES, words.0);
        program::run_first(space.clone(), &frame, Action::DEFAULT);
    };
    thread::run_all(&[&watch, &run], nr > 1);
    let (objects, took_ns) = (objects.load(Relaxed), took_ns.load(Relaxed));
    (took_ns < u64::MAX).then_some(Lap { objects, took_ns })
}
