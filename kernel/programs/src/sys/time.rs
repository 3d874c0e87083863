//! Time, and what the kernel tells of the machine.

use super::{Errno, call, nr};

/// A clock, by Linux's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock(pub usize);

impl Clock {
    /// The time of day.
    pub const REALTIME: Clock = Clock(0);
    /// Time that passes.
    pub const MONOTONIC: Clock = Clock(1);
    /// Time that passes, by the hardware alone: nothing sleeps by it.
    pub const RAW: Clock = Clock(4);
    /// There is none of this number.
    pub const NONE: Clock = Clock(99);

    /// What it shows, nanoseconds.
    pub fn now_ns(self) -> Result<u64, Errno> {
        let mut now = [0u64; 2];
        // SAFETY: the kernel writes the two words.
        unsafe { call(nr::CLOCK_GETTIME, [self.0, &raw mut now as usize, 0, 0, 0, 0]) }?;
        Ok(now[0] * 1_000_000_000 + now[1])
    }

    /// Sleeps by it for a time, or until it shows that if it `is_moment`.
    pub fn sleep(self, time: [u64; 2], is_moment: bool) -> Result<usize, Errno> {
        let words = [self.0, is_moment.into(), &raw const time as usize, 0, 0, 0];
        // SAFETY: the kernel reads the two words.
        unsafe { call(nr::CLOCK_NANOSLEEP, words) }
    }
}

/// Seconds, and nanoseconds beyond.
pub const fn timespec(ns: u64) -> [u64; 2] {
    [ns / 1_000_000_000, ns % 1_000_000_000]
}

/// Sleeps for a time of seconds and nanoseconds.
pub fn nanosleep(time: [u64; 2]) -> Result<usize, Errno> {
    // SAFETY: the kernel reads the two words.
    unsafe { call(nr::NANOSLEEP, [&raw const time as usize, 0, 0, 0, 0, 0]) }
}

/// The time of day by the older calls: seconds and microseconds, and seconds alone.
pub fn time_of_day() -> Result<([u64; 2], u64), Errno> {
    let (mut now, mut zone) = ([0u64; 2], [u32::MAX; 2]);
    // SAFETY: the kernel writes the words.
    unsafe { call(nr::GETTIMEOFDAY, [&raw mut now as usize, &raw mut zone as usize, 0, 0, 0, 0]) }?;
    // SAFETY: nothing is written.
    let seconds = unsafe { call(nr::TIME, [0; 6]) }?;
    assert!(zone != [u32::MAX; 2]);
    Ok((now, seconds as u64))
}

/// Linux's `struct sysinfo`, by words: uptime, three loads, RAM, free, shared, buffers, swap, free swap,
/// threads, high memory, free high memory, bytes of a unit.
pub fn sysinfo() -> Result<[u64; 14], Errno> {
    let mut told = [u64::MAX; 14];
    // SAFETY: the kernel writes the words.
    unsafe { call(nr::SYSINFO, [&raw mut told as usize, 0, 0, 0, 0, 0]) }?;
    Ok(told)
}

/// Asks which of these can be read (1) or written (4), as pairs of a number and what is asked; what is told.
pub fn poll<const N: usize>(files: [(i32, u16); N], ms: usize) -> Result<(usize, [u16; N]), Errno> {
    let mut list = files.map(|(number, asked)| u64::from(number as u32) | u64::from(asked) << 32);
    // SAFETY: the kernel reads and writes the list.
    let ready = unsafe { call(nr::POLL, [list.as_mut_ptr() as usize, N, ms, 0, 0, 0]) }?;
    Ok((ready, list.map(|word| (word >> 48) as u16)))
}

/// Waits on a futex that holds what is expected, until a moment of the clock has passed.
pub fn wait_until(moment: [u64; 2], clock: Clock, set: u32) -> Result<usize, Errno> {
    /// FUTEX_WAIT_BITSET, private, and by the time of day.
    const WAIT: usize = 9 | 128;
    const WALL: usize = 256;
    let word = 0u32;
    let operation = WAIT | if clock == Clock::REALTIME { WALL } else { 0 };
    let words = [&raw const word as usize, operation, 0, &raw const moment as usize, 0, set as usize];
    // SAFETY: the kernel reads the word and the moment.
    unsafe { call(nr::FUTEX, words) }
}

/// Clones with these flags, which both kernels refuse.
pub fn clone_refused(flags: usize) -> Result<usize, Errno> {
    // SAFETY: nothing is made. (Else there would be two of this process.)
    unsafe { call(nr::CLONE, [flags, 0, 0, 0, 0, 0]) }
}
