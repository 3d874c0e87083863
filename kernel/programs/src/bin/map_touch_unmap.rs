//! Mapping, touching and unmapping a page over and over: the kernel says how many interrupts that took.
//!
//! `map_touch_unmap [THREADS] [ROUNDS] [MOVE]`. Each thread stays on a CPU of its own where there are as
//! many, but moves to the next one every MOVE rounds, if that is not 0. A CPU that runs no thread of the
//! program is interrupted at most once from each time that it ran one, so with one thread there are no more
//! interrupts than times that a CPU stopped to run it.
#![cfg_attr(metal, no_std, no_main)]

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use interleaf_programs::say::granted;
use interleaf_programs::sys::{self, AllowedCpus, Args, Region, Rights, THREADS};
use interleaf_programs::{GOOD, holds, program, say};

program!(begin);

static ROUNDS: AtomicUsize = AtomicUsize::new(0);
static MOVE: AtomicUsize = AtomicUsize::new(0);
/// Moves of all threads.
static MOVES: AtomicUsize = AtomicUsize::new(0);

fn begin(args: Args) -> u8 {
    let threads = args.number(1, 1).clamp(1, THREADS);
    ROUNDS.store(args.number(2, 5000), Relaxed);
    MOVE.store(args.number(3, 0), Relaxed);
    let others: [_; THREADS] =
        core::array::from_fn(|index| (1..threads).contains(&index).then(|| sys::spawn(run, index)));
    run(0);
    others.into_iter().flatten().for_each(|thread| granted("clone", thread).join());
    say!(
        "map_touch_unmap: {threads} threads, {} rounds each, {} moves, every page came empty",
        ROUNDS.load(Relaxed),
        MOVES.load(Relaxed)
    );
    GOOD
}

fn run(index: usize) {
    let (rounds, every) = (ROUNDS.load(Relaxed), MOVE.load(Relaxed));
    let cpus = AllowedCpus::of_this_thread();
    let move_to = |turn: usize| cpus.is_some_and(|cpus| cpus.move_to(turn % cpus.count()));
    let mut moves = 0;
    move_to(index);
    for round in 0..rounds {
        if every != 0 && round % every == every - 1 {
            moves += usize::from(move_to(index + moves + 1));
        }
        let page = granted("mmap", Region::map(1, Rights::WRITE));
        page.write(0, round % 512, 1);
        let words = [round, round + 1].map(|word| page.read(0, word % 512));
        holds!(words == [1, 0], "thread {index}, round {round}: a fresh page holds {words:?}");
        granted("munmap", page.unmap());
    }
    MOVES.fetch_add(moves, Relaxed);
}
