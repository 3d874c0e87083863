//! Demand faults: a page reads zero until it is written, and keeps its contents then.
//!
//! `faults [PAGES]`. Mapped pages, pages far apart, statics, the stack, the heap, and memory that the kernel
//! touches on the program's behalf.
#![cfg_attr(metal, no_std, no_main)]

use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use interleaf_programs::dice::mix;
use interleaf_programs::say::granted;
use interleaf_programs::sys::{self, Args, EFAULT, ENOMEM, PAGE, Region, Rights};
use interleaf_programs::{GOOD, holds, program, say};

program!(begin);

/// Words of a page.
const WORDS: usize = PAGE / 8;
/// Pages of the large static.
const STATIC_PAGES: usize = 32;

static ZEROED: [AtomicU64; STATIC_PAGES * WORDS] = [const { AtomicU64::new(0) }; STATIC_PAGES * WORDS];
static FILLED: AtomicU64 = AtomicU64::new(0x1234_5678_9abc_def0);

/// A line in pages of its own, which the program itself never touches.
#[repr(align(4096))]
struct Line([u8; 57]);

static FROM_FILE: Line = Line(*b"faults: the kernel reads this from a page of the program\n");

fn begin(args: Args) -> u8 {
    let pages = args.number(1, 256);
    reads_then_writes(pages);
    writes_alone(pages);
    far_apart();
    statics();
    stack(0);
    heap();
    kernel_touches();
    say!("faults: {pages} pages read zero, kept what was written; so did statics, stack and heap");
    GOOD
}

/// Each page is read (and shares the zero page), then every other one is written.
fn reads_then_writes(pages: usize) {
    let region = granted("mmap", Region::map(pages, Rights::WRITE));
    for page in 0..pages {
        for word in [0, 1, WORDS / 2, WORDS - 1] {
            holds!(region.read(page, word) == 0, "page {page}, word {word} is not zero before any write");
        }
    }
    for page in (0..pages).step_by(2) {
        region.write(page, page % WORDS, mix(page as u64));
    }
    for page in 0..pages {
        for word in 0..WORDS {
            let written = page % 2 == 0 && word == page % WORDS;
            let expected = if written { mix(page as u64) } else { 0 };
            holds!(
                region.read(page, word) == expected,
                "page {page}, word {word} does not hold {expected:#x}"
            );
        }
    }
    granted("munmap", region.unmap());
}

/// The first touch is a write; the rest of the page must be zero all the same.
fn writes_alone(pages: usize) {
    let region = granted("mmap", Region::map(pages, Rights::WRITE));
    for page in (0..pages).rev() {
        region.write(page, 7, !(page as u64));
    }
    for page in 0..pages {
        holds!(region.read(page, 7) == !(page as u64), "page {page} forgot what was written");
        let rest = (0..WORDS).filter(|&word| word != 7).map(|word| region.read(page, word));
        holds!(
            rest.into_iter().all(|value| value == 0),
            "page {page} was not zero where nothing was written"
        );
    }
    granted("munmap", region.unmap());
}

/// One page in each 2 MiB of 256 MiB, which may be more than the machine has: each needs a table of its own.
fn far_apart() {
    let (stride, count) = (512, 128);
    let region = granted("mmap", Region::map_uncommitted(stride * count, Rights::WRITE));
    for index in 0..count {
        region.write(index * stride, index, mix(index as u64));
    }
    for index in 0..count {
        holds!(region.read(index * stride, index) == mix(index as u64), "page {} of many", index * stride);
        holds!(region.read(index * stride + 1, index) == 0, "the page behind it");
    }
    granted("munmap", region.unmap());
}

fn statics() {
    holds!(FILLED.load(Relaxed) == 0x1234_5678_9abc_def0, "a static does not hold what it was linked with");
    FILLED.store(1, Relaxed);
    for (index, word) in ZEROED.iter().enumerate() {
        holds!(word.load(Relaxed) == 0, "word {index} of a zeroed static is not zero");
        word.store(mix(index as u64), Relaxed);
    }
    for (index, word) in ZEROED.iter().enumerate() {
        holds!(word.load(Relaxed) == mix(index as u64), "word {index} of a static forgot what was written");
    }
    holds!(FILLED.load(Relaxed) == 1, "a static forgot what was written");
}

/// 64 frames of two pages each: the stack grows as it is used.
#[inline(never)]
fn stack(depth: u64) -> u64 {
    let mut frame = black_box([depth; 2 * WORDS]);
    let below = if depth < 64 { stack(depth + 1) } else { 0 };
    frame[0] += below;
    let good = frame[1..].iter().all(|&word| word == depth) && frame[0] == depth + below;
    holds!(good, "the stack lost what frame {depth} held");
    black_box(&frame)[0]
}

/// The heap grows by pages that read zero, and shrinks again.
fn heap() {
    let start = sys::heap_end(0);
    let end = sys::heap_end(start + 16 * PAGE);
    holds!(end == start + 16 * PAGE, "the heap did not grow: {start:#x}, {end:#x}");
    holds!(sys::heap_end(start) == start, "the heap did not shrink");
    holds!(sys::heap_end(1) == start, "the heap moved to where it cannot be");
}

/// System calls fault on the program's memory as the program does, or return EFAULT.
fn kernel_touches() {
    let region = granted("mmap", Region::map(8, Rights::WRITE));
    let answer = granted("mmap", Region::map(2, Rights::WRITE));
    region.write(3, 0, 1);
    // The kernel writes into a page that was never touched.
    granted("mincore", region.resident(&answer));
    holds!(answer.read(0, 0) & 0x0101_0101_0101_0101 == 1 << 24, "mincore: {:#x}", answer.read(0, 0));
    // At a hole it fails, and has written what it says of the pages before.
    let with_a_hole = granted("mmap", Region::map(3, Rights::WRITE));
    granted("munmap", with_a_hole.part(1, 1).unmap());
    answer.write(0, 0, u64::MAX);
    holds!(with_a_hole.resident(&answer) == Err(ENOMEM), "mincore goes over a hole");
    holds!(answer.read(0, 0) == u64::MAX << 8, "mincore of a hole: {:#x}", answer.read(0, 0));
    granted("munmap", with_a_hole.unmap());
    // It reads from one that was never touched, and from the program's file.
    holds!(
        region.part(5, 1).read_by_kernel(1) == Ok(()),
        "the kernel does not read a page that was never touched"
    );
    sys::write(&FROM_FILE.0);
    granted("mprotect", answer.protect(Rights::READ));
    holds!(region.resident(&answer) == Err(EFAULT), "the kernel wrote where the program may only read");
    granted("mprotect", answer.protect(Rights::NONE));
    holds!(answer.read_by_kernel(1) == Err(EFAULT), "the kernel read where the program may not");
    granted("munmap", answer.unmap());
    holds!(answer.read_by_kernel(1) == Err(EFAULT), "the kernel read what is not mapped");
    holds!(region.resident(&answer) == Err(EFAULT), "the kernel wrote what is not mapped");
    granted("munmap", region.unmap());
}
