//! Calls about time.
//!
//! | clock | is |
//! |---|---|
//! | REALTIME, its COARSE and ALARM, TAI | the hardware's clock at boot, to a second, and what passed since |
//! | MONOTONIC, its RAW and COARSE, BOOTTIME, its ALARM | what has passed since boot |
//! | CPU times | EINVAL: they are not counted |

use super::{Arguments, CallResult, words};
use crate::arch::{Core, clock};
use crate::task::{process, sched};
use interleaf::machine::Cpu;
use interleaf_linux_abi::Errno;
use interleaf_linux_abi::task::*;

const NS: u64 = 1_000_000_000;

/// What a clock showed when [`Core::now_ns`] was 0, nanoseconds: all clocks run alike.
fn start_ns(clock: i32) -> Result<u64, Errno> {
    match clock {
        CLOCK_REALTIME | CLOCK_REALTIME_COARSE | CLOCK_REALTIME_ALARM | CLOCK_TAI => {
            clock::switched_on_ns().ok_or(Errno::EINVAL)
        }
        CLOCK_MONOTONIC
        | CLOCK_MONOTONIC_RAW
        | CLOCK_MONOTONIC_COARSE
        | CLOCK_BOOTTIME
        | CLOCK_BOOTTIME_ALARM => Ok(0),
        _ => Err(Errno::EINVAL),
    }
}

/// What a clock shows now, nanoseconds.
fn now_ns(clock: i32) -> Result<u64, Errno> {
    Ok(start_ns(clock)?.saturating_add(Core::now_ns()))
}

pub fn clock_gettime(clock: u64, at: u64) -> CallResult {
    let now = now_ns(clock as i32)?;
    words::write(at, [now / NS, now % NS])?;
    Ok(0)
}

/// A nanosecond, of every clock.
pub fn clock_getres(clock: u64, at: u64) -> CallResult {
    now_ns(clock as i32)?;
    if at != 0 {
        words::write(at, [0, 1])?;
    }
    Ok(0)
}

/// The time of day, and the time zone that Linux has where none was set.
pub fn gettimeofday(at: u64, zone_at: u64) -> CallResult {
    let now = now_ns(CLOCK_REALTIME)?;
    if at != 0 {
        words::write(at, [now / NS, now % NS / 1000])?;
    }
    if zone_at != 0 {
        words::write(zone_at, [0])?;
    }
    Ok(0)
}

pub fn time(at: u64) -> CallResult {
    let seconds = now_ns(CLOCK_REALTIME)? / NS;
    if at != 0 {
        words::write(at, [seconds])?;
    }
    Ok(seconds)
}

/// The nanoseconds of a `timespec`.
pub fn duration_ns(at: u64) -> Result<u64, Errno> {
    let [seconds, ns] = words::read(at)?;
    if ns >= NS || seconds > i64::MAX as u64 {
        return Err(Errno::EINVAL);
    }
    Ok(seconds.saturating_mul(NS).saturating_add(ns))
}

/// The moment of [`Core::now_ns`] at which a clock shows `then`.
pub fn moment_ns(clock: i32, then: u64) -> Result<u64, Errno> {
    Ok(then.saturating_sub(start_ns(clock)?))
}

pub fn nanosleep(at: u64) -> CallResult {
    sleep_until(Core::now_ns().saturating_add(duration_ns(at)?))
}

/// Never interrupted, so what is left of the time is never told.
pub fn clock_nanosleep(Arguments([clock, flags, at, ..]): Arguments) -> CallResult {
    let clock = clock as i32;
    match clock {
        CLOCK_REALTIME | CLOCK_MONOTONIC | CLOCK_BOOTTIME | CLOCK_TAI => {}
        CLOCK_MONOTONIC_RAW | CLOCK_REALTIME_COARSE | CLOCK_MONOTONIC_COARSE | CLOCK_THREAD_CPUTIME_ID => {
            return Err(Errno::EOPNOTSUPP);
        }
        // Those that Linux refuses, too, and those that it would need CPU times or a wake-up for.
        _ => return Err(Errno::EINVAL),
    }
    let time = duration_ns(at)?;
    let end = match flags & TIMER_ABSTIME {
        0 => Core::now_ns().saturating_add(time),
        _ => moment_ns(clock, time)?,
    };
    sleep_until(end)
}

/// There is no list of timers: a sleeping thread reads the clock whenever it is scheduled.
pub fn sleep_until(end_ns: u64) -> CallResult {
    while Core::now_ns() < end_ns && !process::current().is_ending() {
        sched::yield_now();
    }
    Ok(0)
}
