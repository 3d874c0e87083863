//! The clock that runs while the machine is off, read once at boot. `core::calendar` knows what it says.

use super::ports::Port;
use interleaf_kernel::core::calendar::Reading;

/// Registers: second, minute, hour, day, month, year, century.
const FIELDS: [u8; 7] = [0, 2, 4, 7, 8, 9, 0x32];
/// Status registers; bit 7 of the first: the others are about to change.
const STATUS_A: u8 = 0x0a;
const STATUS_B: u8 = 0x0b;
const CHANGES: u8 = 1 << 7;
/// Readings until two are alike: it changes once in a second.
const ATTEMPTS: usize = 100;

/// Seconds since 1970; `None` where the clock does not say.
pub fn unix_seconds() -> Option<u64> {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let reading = (register(STATUS_A) & CHANGES == 0)
            .then(|| Reading { fields: FIELDS.map(register), format: register(STATUS_B) });
        if reading.is_some() && reading == last {
            return reading?.unix_seconds();
        }
        last = reading;
    }
    None
}

fn register(number: u8) -> u8 {
    // SAFETY: the clock accesses no memory; registers are selected and read, never written, so it raises no
    // interrupt that it does not raise already.
    let [select, data] = unsafe { [Port::new(0x70), Port::new(0x71)] };
    select.write_u8(number);
    data.read_u8()
}
