//! Time, and small calls that tell of the machine: right, or an error.
//!
//! `clocks [MILLISECONDS]`: how long each sleep lasts.
#![cfg_attr(metal, no_std, no_main)]

use interleaf_programs::say::granted;
use interleaf_programs::sys::time::*;
use interleaf_programs::sys::{Args, EINVAL, EOPNOTSUPP, ETIMEDOUT};
use interleaf_programs::{GOOD, holds, program, say};

program!(begin);

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
/// The beginnings of 2024 and of 2100.
const PAST: u64 = 1_704_067_200 * SECOND;
const FUTURE: u64 = 4_102_444_800 * SECOND;
/// Bits of poll: it can be read, can be written, is not there.
const READ: u16 = 1;
const WRITE: u16 = 4;
const MISSING: u16 = 32;

fn begin(args: Args) -> u8 {
    let ns = args.number(1, 20) as u64 * MS;
    the_time_of_day();
    sleeps(ns);
    refused_sleeps();
    waits(ns);
    memory();
    files(ns);
    clones();
    say!("clocks: the time of day is one, and each wait lasted {} ms at least", ns / MS);
    GOOD
}

fn now(clock: Clock) -> u64 {
    granted("clock_gettime", clock.now_ns())
}

fn the_time_of_day() {
    let before = now(Clock::REALTIME);
    holds!((PAST..FUTURE).contains(&before), "the time of day is {before} ns after 1970");
    let ([seconds, us], alone) = granted("gettimeofday", time_of_day());
    let after = now(Clock::REALTIME);
    // The coarse clock may lag by a tick.
    let same = seconds * SECOND + us * 1000;
    holds!((before - SECOND / 10..=after).contains(&same), "{before} {same} {after}");
    holds!((before / SECOND - 1..=after / SECOND).contains(&alone), "{before} {alone} {after}");
    let first = now(Clock::MONOTONIC);
    holds!(first <= now(Clock::MONOTONIC), "time passes backwards");
    holds!(Clock::NONE.now_ns() == Err(EINVAL), "a clock of number 99 shows {:?}", Clock::NONE.now_ns());
}

/// A sleep lasts as long as it is asked to, whatever it is asked by.
fn sleeps(ns: u64) {
    let lasts = |what: &str, sleep: &dyn Fn() -> bool| {
        let before = now(Clock::MONOTONIC);
        let slept = sleep();
        let took = now(Clock::MONOTONIC) - before;
        holds!(slept && took >= ns, "{what} of {ns} ns took {took} ns");
    };
    lasts("nanosleep", &|| nanosleep(timespec(ns)).is_ok());
    for clock in [Clock::REALTIME, Clock::MONOTONIC] {
        lasts("clock_nanosleep", &|| clock.sleep(timespec(ns), false).is_ok());
        lasts("clock_nanosleep until a moment", &|| clock.sleep(timespec(now(clock) + ns), true).is_ok());
    }
    // A moment that has passed.
    holds!(Clock::MONOTONIC.sleep([0, 1], true).is_ok(), "a moment that has passed");
}

fn refused_sleeps() {
    for odd in [[0, SECOND], [u64::MAX, 0], [0, u64::MAX]] {
        holds!(nanosleep(odd) == Err(EINVAL), "a sleep of {odd:?}");
        holds!(Clock::MONOTONIC.sleep(odd, false) == Err(EINVAL), "a sleep by a clock of {odd:?}");
    }
    holds!(Clock::NONE.sleep([0, 1], false) == Err(EINVAL), "a sleep by no clock");
    holds!(Clock::RAW.sleep([0, 1], false) == Err(EOPNOTSUPP), "a sleep by a clock that nothing sleeps by");
}

/// A futex waits until a moment of either clock.
fn waits(ns: u64) {
    for clock in [Clock::REALTIME, Clock::MONOTONIC] {
        let before = now(Clock::MONOTONIC);
        let ended = wait_until(timespec(now(clock) + ns), clock, u32::MAX);
        let took = now(Clock::MONOTONIC) - before;
        holds!(ended == Err(ETIMEDOUT) && took >= ns, "{ended:?} after {took} ns");
    }
    holds!(wait_until([0, 0], Clock::MONOTONIC, 0) == Err(EINVAL), "a wait for no wake-up");
    holds!(
        wait_until([0, SECOND], Clock::MONOTONIC, u32::MAX) == Err(EINVAL),
        "a moment with odd nanoseconds"
    );
}

fn memory() {
    let told = granted("sysinfo", sysinfo());
    let (total, free, threads, unit) = (told[4], told[5], told[10] & 0xffff, told[13] & 0xffff_ffff);
    let unit = unit.max(1);
    let right = total * unit >= 32 << 20 && free <= total && threads >= 1;
    holds!(right && told.iter().all(|&word| word != u64::MAX), "sysinfo: {told:?}");
}

/// What can be read or written, and what is not there; then a wait for nothing.
fn files(ns: u64) {
    let (ready, told) = granted("poll", poll([(1, WRITE), (-1, READ), (999, READ)], 1000));
    holds!((ready, told[1], told[2]) == (2, 0, MISSING), "{ready} {told:?}");
    holds!(told[0] & WRITE != 0 && told[0] & READ == 0, "the console: {told:?}");
    let before = now(Clock::MONOTONIC);
    let (ready, _) = granted("poll", poll([], (ns / MS) as usize));
    let took = now(Clock::MONOTONIC) - before;
    holds!(ready == 0 && took >= ns, "a wait for nothing took {took} ns");
}

/// Children that Linux refuses: a thread without shared actions, actions without shared memory.
fn clones() {
    for flags in [0x100 | 0x1_0000, 0x800 | 17, 0x1_0000] {
        holds!(clone_refused(flags) == Err(EINVAL), "a child with flags {flags:#x}");
    }
}
