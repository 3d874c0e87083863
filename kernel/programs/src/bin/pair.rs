//! Two CPUs fault in the halves of one mapping, in turns, watched by the plugin.
//!
//! `pair [FAULTS]`. The same as the lab's recorder sees: both CPUs write-fault in parts of one mapping that
//! share no table but the upper ones, a hundred pages in each turn. The first faults of each part come before
//! the mark "begin".
#![cfg_attr(metal, no_std, no_main)]

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use interleaf_programs::say::granted;
use interleaf_programs::sys::{self, Args, Region, Rights, Shared};
use interleaf_programs::{GOOD, holds, program, say};

program!(begin);

/// Pages between the parts: as many as one table of tables covers.
const APART: usize = 512 * 512;
/// Pages touched in a turn.
const TURN: usize = 100;
/// Pages of a part that are touched before the mark: one in the middle of each table's range.
const TABLE: usize = 512;

static REGION: Shared = Shared::new();
static FAULTS: AtomicU64 = AtomicU64::new(0);
/// Number of turns that have ended, of both. SeqCst: it passes the right to fault on.
static TURNS: AtomicU32 = AtomicU32::new(0);

fn begin(args: Args) -> u8 {
    let faults = args.number(1, 1_000).next_multiple_of(TURN);
    holds!(faults < APART / 2, "at most {} faults", APART / 2);
    FAULTS.store(faults as u64, Ordering::Relaxed);
    REGION.set(granted("mmap", Region::map_uncommitted(2 * APART, Rights::WRITE)));
    let other = granted("clone", sys::spawn(take_turns, 1));
    take_turns(0);
    other.join();
    sys::mark_end();
    say!("pair: {faults} faults on each of two CPUs");
    GOOD
}

fn take_turns(me: usize) {
    sys::move_to_cpu(me);
    let part = REGION.get().part(me * APART, APART);
    let faults = FAULTS.load(Ordering::Relaxed) as usize;
    // Tables and the mapping's identity exist before the mark.
    wait_for(me as u32);
    (0..=faults).step_by(TABLE).for_each(|page| part.write(page + TABLE - 1, 0, 1));
    TURNS.fetch_add(1, Ordering::SeqCst);
    for turn in 0..faults / TURN {
        wait_for(2 * (turn as u32 + 1) + me as u32);
        if turn == 0 && me == 0 {
            sys::mark_begin();
        }
        (turn * TURN..(turn + 1) * TURN).for_each(|page| part.write(page, 1, page as u64));
        TURNS.fetch_add(1, Ordering::SeqCst);
    }
}

fn wait_for(turn: u32) {
    let mut looks = 0u32;
    while TURNS.load(Ordering::SeqCst) != turn {
        looks += 1;
        if looks.is_multiple_of(1024) {
            sys::yield_now();
        }
        core::hint::spin_loop();
    }
}
