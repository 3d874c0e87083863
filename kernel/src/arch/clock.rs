//! Time: the time stamp counter, measured once against the one clock whose rate is known, the PIT; and the
//! time of day, read once from the clock that runs while the machine is off.

use super::ports::Port;
use super::{registers, rtc};
use core::sync::atomic::{AtomicU64, Ordering::*};

/// Nanoseconds in a cycle, times 2^32. 0 before [`calibrate`]; written once, by the boot CPU alone.
static NS_PER_CYCLE: AtomicU64 = AtomicU64::new(0);

/// What the time of day was when the machine was switched on, nanoseconds since 1970; 0 where it is not
/// known. Written once, by the boot CPU alone.
static SWITCHED_ON_NS: AtomicU64 = AtomicU64::new(0);

/// Ticks of the PIT in a second.
const PIT_HZ: u64 = 1_193_182;

/// Waits `us` microseconds.
pub fn delay_us(us: u64) {
    // At most 50 ms at a time: the counter has 16 bits.
    for part in (0..us).step_by(50_000) {
        pit_wait((us - part).min(50_000));
    }
}

fn pit_wait(us: u64) {
    // SAFETY: the PIT accesses no memory; its channel 2 raises no interrupt, and the constants in this
    // function are all that is ever written.
    let [gate, command, channel_2] = unsafe { [Port::new(0x61), Port::new(0x43), Port::new(0x42)] };
    let ticks = (us * PIT_HZ).div_ceil(1_000_000).max(1) as u16;
    gate.write_u8(gate.read_u8() & !2 | 1);
    command.write_u8(0xb0);
    ticks.to_le_bytes().into_iter().for_each(|byte| channel_2.write_u8(byte));
    while gate.read_u8() & 0x20 == 0 {
        core::hint::spin_loop();
    }
}

/// Measures the counter's rate. On the boot CPU, before the time is first read.
pub fn calibrate() {
    const US: u64 = 20_000;
    let from = registers::time_stamp();
    delay_us(US);
    let cycles = (registers::time_stamp() - from).max(1);
    let scale = (u128::from(US) * 1000) << 32;
    NS_PER_CYCLE.store((scale / u128::from(cycles)) as u64, Relaxed);
}

/// Nanoseconds in a number of cycles.
pub fn cycles_to_ns(cycles: u64) -> u64 {
    ((u128::from(cycles) * u128::from(NS_PER_CYCLE.load(Relaxed))) >> 32) as u64
}

/// Nanoseconds since the machine was switched on.
pub fn now_ns() -> u64 {
    cycles_to_ns(registers::time_stamp())
}

/// Reads the time of day. On the boot CPU, after [`calibrate`].
pub fn read_time_of_day() {
    let now = rtc::unix_seconds().and_then(|seconds| seconds.checked_mul(1_000_000_000));
    SWITCHED_ON_NS.store(now.map_or(0, |now| now.saturating_sub(now_ns())), Relaxed);
}

/// What the time of day was when [`now_ns`] was 0, nanoseconds since 1970, right to a second; `None` where it
/// is not known.
pub fn switched_on_ns() -> Option<u64> {
    match SWITCHED_ON_NS.load(Relaxed) {
        0 => None,
        on => Some(on),
    }
}
