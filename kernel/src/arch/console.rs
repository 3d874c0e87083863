//! The serial line, on which programs print, the debug console, on which the kernel does, and the device that
//! ends the machine.

use super::Core;
use super::ports::Port;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, Ordering::*};
use interleaf::sync::SpinLock;

/// COM1's registers: data, interrupts, FIFO, line control, modem control, line status.
// SAFETY: a serial controller accesses no memory, and the lines below never let it raise an interrupt.
static COM1: [Port; 6] = unsafe {
    [
        Port::new(0x3f8),
        Port::new(0x3f9),
        Port::new(0x3fa),
        Port::new(0x3fb),
        Port::new(0x3fc),
        Port::new(0x3fd),
    ]
};
/// QEMU's debug console: every byte is passed on at once. No program reaches it.
// SAFETY: the device accesses no memory and raises no interrupt; where it is missing, nothing listens.
static DEBUG: Port = unsafe { Port::new(0xe9) };
/// QEMU's isa-debug-exit: a value `v` ends it with status `v << 1 | 1`.
// SAFETY: the device ends QEMU; where it is missing, nothing listens at the port.
static EXIT: Port = unsafe { Port::new(0xf4) };

/// The rank of the console's lock: the last but for those taken with interrupts off, so that nearly all code
/// may print.
const RANK: u8 = 42;

/// One line is printed at a time, by one CPU.
static LINE: SpinLock<(), Core, RANK> = SpinLock::new(());
/// A CPU panicked: it prints without the lock, and no other CPU prints any more.
static PANICKED: AtomicBool = AtomicBool::new(false);

/// Makes the line ready: 115200 baud, 8 bits, no interrupts.
pub fn init() {
    for (register, value) in [(1, 0), (3, 0x80), (0, 1), (1, 0), (3, 3), (2, 7)] {
        COM1[register].write_u8(value);
    }
}

/// The debug console itself.
struct Debug;

impl Write for Debug {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(|byte| DEBUG.write_u8(byte));
        Ok(())
    }
}

/// Bits of the line's status: it takes a byte; it has sent all.
const TAKES: u8 = 0x20;
const IS_EMPTY: u8 = 0x40;

fn send(bytes: &[u8]) {
    for &byte in bytes {
        wait_for(TAKES);
        COM1[0].write_u8(byte);
    }
}

fn wait_for(status: u8) {
    while COM1[5].read_u8() & status == 0 {
        core::hint::spin_loop();
    }
}

/// Prints a line of the kernel's; those of different CPUs do not mix.
pub fn print(text: fmt::Arguments<'_>) {
    let _line = LINE.lock();
    if !PANICKED.load(Relaxed) {
        let _ = Debug.write_fmt(text);
    }
}

/// Sends a program's bytes as they are.
pub fn write(bytes: &[u8]) {
    let _line = LINE.lock();
    if !PANICKED.load(Relaxed) {
        send(bytes);
    }
}

/// Prints a panic's report without the lock, whose holder may be the CPU that panics. False where another CPU
/// panicked first.
pub fn begin_last_words() -> bool {
    !PANICKED.swap(true, AcqRel)
}

/// Prints part of the report.
pub fn last_words(text: fmt::Arguments<'_>) {
    let _ = Debug.write_fmt(text);
}

/// Writes the exit code where the kernel alone writes: isa-debug-exit has too few bits for it.
pub fn report_code(code: u8) {
    let _ = writeln!(Debug, "exit code {code}");
}

/// Ends the machine with a value for isa-debug-exit, once the serial line has sent all; without that device,
/// stops this CPU.
pub fn exit(value: u8) -> ! {
    wait_for(IS_EMPTY);
    EXIT.write_u32(value.into());
    loop {
        super::registers::halt_for_good();
    }
}

/// Prints a line on the kernel's console.
#[macro_export]
macro_rules! println {
    ($($text:tt)*) => { $crate::arch::console::print(format_args!("{}\n", format_args!($($text)*))) };
}
