//! fork: contents, families, and a storm of threads and forks.
//!
//! `forks [CHILDREN [PAGES [ROUNDS]]]`. Every process checks each byte that it may know, and says by its exit
//! code whether it was right.
//!
//! `forks abandon` ends with [`ABANDONED`] and leaves descendants that never end: for a kernel that ends them
//! all with the first process, as only one that has been booted for it does.
#![cfg_attr(metal, no_std, no_main)]

use core::sync::atomic::{AtomicU64, Ordering::*};
use interleaf_programs::dice::mix;
use interleaf_programs::say::granted;
use interleaf_programs::sys::{self, Args, Child, ECHILD, Forked, Region, Rights, Shared, Status};
use interleaf_programs::{GOOD, holds, program, say};

program!(begin);

/// Threads that write while another one forks.
const WRITERS: usize = 3;
/// Generations of a chain.
const DEPTH: u64 = 8;
/// The status of a process that exited with `code`.
const fn exited(code: u8) -> Status {
    (code as Status) << 8
}

/// The code of a first process that leaves its descendants.
const ABANDONED: u8 = 77;

fn begin(args: Args) -> u8 {
    if args.word(1) == Some("abandon") {
        return abandon();
    }
    let (children, pages, rounds) = (args.number(1, 6), args.number(2, 64), args.number(3, 40));
    contents(children, pages);
    chain(pages);
    shared_and_wiped();
    sharing_the_space();
    outliving_the_parent();
    orphans(children);
    no_children();
    exits();
    writers_and_forks(rounds);
    say!("forks: {children} children, {pages} pages, {rounds} forks under writes: each saw its own memory");
    GOOD
}

/// Forks; the child runs `body` and ends with its code.
fn child(body: impl FnOnce() -> u8) -> Child {
    match granted("fork", sys::fork()) {
        Forked::Child => sys::exit_group(body()),
        Forked::Parent(child) => child,
    }
}

fn expect_end(child: Child, status: Status) {
    let (ended, how) = granted("wait4", sys::wait(Some(child)));
    holds!((ended, how) == (child, status), "{child:?} should end with {status:#x}: {ended:?}, {how:#x}");
}

/// What a process writes to a page.
fn value(writer: u64, page: usize) -> u64 {
    mix(writer << 32 | page as u64)
}

fn fill(region: &Region, pages: usize, writer: u64) {
    (0..pages).for_each(|page| region.write(page, page % 512, value(writer, page)));
}

fn check(region: &Region, pages: usize, writer: u64, who: &str) {
    for page in 0..pages {
        let found = region.read(page, page % 512);
        holds!(found == value(writer, page), "{who}: page {page} holds {found:#x}");
    }
}

/// Children see what was written before they were made, and no process sees what another one writes after.
fn contents(children: usize, pages: usize) {
    let region = granted("mmap", Region::map(2 * pages, Rights::WRITE));
    fill(&region, pages, 0);
    let (me, _) = sys::numbers();
    for number in 1..=children as u64 {
        let made = child(|| {
            holds!(sys::numbers().1 == me, "a child's parent is not its parent");
            check(&region, pages, 0, "a child, before");
            fill(&region, pages, number);
            (pages..2 * pages).for_each(|page| region.write(page, 0, number));
            check(&region, pages, number, "a child, after");
            number as u8
        });
        check(&region, pages, 0, "the parent, beside a child");
        expect_end(made, exited(number as u8));
        check(&region, pages, 0, "the parent, after a child");
        holds!((pages..2 * pages).all(|page| region.read(page, 0) == 0), "a child's page is seen");
    }
    granted("munmap", region.unmap());
}

/// Each generation writes before it forks, and after its child has ended.
fn chain(pages: usize) {
    let region = granted("mmap", Region::map(pages, Rights::WRITE));
    fn generation(region: &Region, pages: usize, depth: u64) -> u8 {
        fill(region, pages, depth);
        if depth < DEPTH {
            expect_end(child(|| generation(region, pages, depth + 1)), exited(depth as u8 + 1));
        }
        check(region, pages, depth, "a generation");
        depth as u8
    }
    generation(&region, pages, 0);
    granted("munmap", region.unmap());
}

/// Shared memory stays shared, and a page that was only read is no page of its own.
fn shared_and_wiped() {
    let shared = granted("mmap", Region::map_shared(2, Rights::WRITE));
    shared.write(0, 0, 1);
    let made = child(|| {
        holds!(shared.read(0, 0) == 1, "shared memory was not inherited");
        shared.write(1, 0, 2);
        shared.write(0, 0, 3);
        7
    });
    expect_end(made, exited(7));
    holds!((shared.read(0, 0), shared.read(1, 0)) == (3, 2), "what a child writes to shared memory is lost");
    granted("munmap", shared.unmap());
}

static SEEN: AtomicU64 = AtomicU64::new(0);

/// A child in the same space: what it writes is seen, and the caller waits for it.
fn sharing_the_space() {
    let made = sys::fork_sharing(|argument| SEEN.store(argument as u64, Release), 42);
    holds!(SEEN.load(Acquire) == 42, "the caller went on before its child had ended, or in other memory");
    expect_end(granted("vfork", made), exited(0));
}

/// Shared memory of a process, and of a child in its space that outlives it.
static WORDS: Shared = Shared::new();

/// A child in the space of its parent goes on in it when the parent has ended.
fn outliving_the_parent() {
    WORDS.set(granted("mmap", Region::map_shared(1, Rights::WRITE)));
    let made = child(|| {
        SEEN.store(43, Release);
        let beside = sys::fork_sharing_beside(
            |_| {
                while WORDS.get().read(0, 0) == 0 {
                    sys::yield_now();
                }
                WORDS.get().write(0, 1, SEEN.load(Acquire));
            },
            0,
        );
        granted("clone", beside);
        6
    });
    expect_end(made, exited(6));
    WORDS.get().write(0, 0, 1);
    while WORDS.get().read(0, 1) == 0 {
        sys::yield_now();
    }
    holds!(WORDS.get().read(0, 1) == 43, "the memory of a space went with the first process that ran there");
    // As in `orphans`.
    while let Ok((_, status)) = sys::wait(None) {
        holds!(status == exited(0), "a child in its parent's space ended with {status:#x}");
    }
    granted("munmap", WORDS.get().unmap());
}

/// Children whose own children outlive them.
fn orphans(children: usize) {
    let words = granted("mmap", Region::map_shared(1, Rights::WRITE));
    for number in 0..children {
        let made = child(|| {
            let _ = child(|| {
                while words.read(0, 0) == 0 {
                    sys::yield_now();
                }
                words.write(0, 1 + number, 1);
                0
            });
            5
        });
        expect_end(made, exited(5));
    }
    words.write(0, 0, 1);
    while (0..children).any(|number| words.read(0, 1 + number) == 0) {
        sys::yield_now();
    }
    // The first process of a machine adopts them; on a host another one does.
    while let Ok((_, status)) = sys::wait(None) {
        holds!(status == exited(0), "an orphan ended with {status:#x}");
    }
    granted("munmap", words.unmap());
}

fn no_children() {
    holds!(sys::wait(None) == Err(ECHILD), "there are no children to wait for");
    holds!(sys::try_wait(None) == Err(ECHILD), "there are no children to look for");
    let words = granted("mmap", Region::map_shared(1, Rights::WRITE));
    let made = child(|| {
        while words.read(0, 0) == 0 {
            sys::yield_now();
        }
        9
    });
    holds!(sys::try_wait(Some(made)) == Ok(None), "a child that runs has ended");
    holds!(sys::wait(Some(Child(made.0 + 1_000_000))) == Err(ECHILD), "a child that never was");
    words.write(0, 0, 1);
    expect_end(made, exited(9));
    granted("munmap", words.unmap());
}

/// The code of a process whose only thread ends, without the process being ended: the low eight bits.
fn exits() {
    for (code, status) in [(0, exited(0)), (5, exited(5)), (0x1ff, exited(0xff))] {
        expect_end(child(|| sys::exit(code)), status);
    }
}

/// Leaves children and grandchildren that compute, wait and have ended, and a thread of its own.
fn abandon() -> u8 {
    let words = granted("mmap", Region::map_shared(1, Rights::WRITE));
    let own = granted("mmap", Region::map(64, Rights::WRITE));
    let forever = |word: usize| -> ! {
        fill(&own, 64, word as u64);
        words.write(0, word, 1);
        loop {
            core::hint::spin_loop();
        }
    };
    let _ = child(|| forever(0));
    let _ = child(|| {
        let _ = child(|| forever(1));
        let _zombie_of_a_child_that_runs = child(|| 3);
        forever(2)
    });
    let _ = child(|| {
        let unending = child(|| forever(3));
        words.write(0, 4, 1);
        let _ = sys::wait(Some(unending));
        0
    });
    let _ = child(|| {
        let _orphan = child(|| forever(5));
        words.write(0, 6, 1);
        0
    });
    let _thread = granted(
        "clone",
        sys::spawn(
            |_| loop {
                core::hint::spin_loop()
            },
            0,
        ),
    );
    while (0..=6).any(|word| words.read(0, word) == 0) {
        sys::yield_now();
    }
    ABANDONED
}

/// Where the writers write; they count up `2 * thread` and then `2 * thread + 1`, which lie far apart.
static REGION: Shared = Shared::new();
static STOP: AtomicU64 = AtomicU64::new(0);
/// Pages from one counter to the next: more than a table covers.
const APART: usize = 700;

fn writer(thread: usize) {
    let region = REGION.get();
    let mut count = 0;
    while STOP.load(Acquire) == 0 {
        count += 1;
        // The later pages first in one thread, last in the next: against the sweep and with it.
        let (first, second) = if thread.is_multiple_of(2) { (0, 1) } else { (1, 0) };
        region.write(APART * (2 * thread + first), 0, count);
        region.write(APART * (2 * thread + second), 0, count);
    }
}

/// A child never has the second of two stores of a thread without the first.
fn writers_and_forks(rounds: usize) {
    let region = granted("mmap", Region::map(APART * (2 * WRITERS + 1), Rights::WRITE));
    REGION.set(region);
    let threads: [_; WRITERS] = core::array::from_fn(|thread| granted("clone", sys::spawn(writer, thread)));
    for _ in 0..rounds {
        let made = child(|| {
            for thread in 0..WRITERS {
                let at = |which: usize| region.read(APART * (2 * thread + which), 0);
                let (first, second) = if thread.is_multiple_of(2) { (at(0), at(1)) } else { (at(1), at(0)) };
                let follows = first == second || first == second + 1;
                holds!(follows, "thread {thread}: a child has {first} and {second}");
                holds!(at(0) == at(0), "memory of a child changes");
            }
            3
        });
        expect_end(made, exited(3));
    }
    STOP.store(1, Release);
    threads.into_iter().for_each(|thread| thread.join());
    granted("munmap", region.unmap());
}
