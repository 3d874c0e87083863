//! The local interrupt controller: interrupts between CPUs, and the timer. Source: Intel SDM volume 3,
//! chapter 11.

use super::space::APIC_PAGE;
use super::{Core, clock, ports};
use core::ptr;
use interleaf::machine::Cpu;

const ID: usize = 0x20;
const END: usize = 0xb0;
const SPURIOUS: usize = 0xf0;
const COMMAND_LOW: usize = 0x300;
const COMMAND_HIGH: usize = 0x310;
const TIMER: usize = 0x320;
const TIMER_INITIAL: usize = 0x380;
const TIMER_CURRENT: usize = 0x390;
const TIMER_DIVIDE: usize = 0x3e0;

/// The timer's vector.
pub const TIMER_VECTOR: u8 = 0xf0;
/// Another CPU asks for the library's interrupt handler.
pub const HANDLER_VECTOR: u8 = 0xf1;
/// Another CPU asks for a full fence.
pub const BARRIER_VECTOR: u8 = 0xf2;
/// Another CPU has made a thread ready, or wants this one to leave a space that it holds lazily.
pub const RESCHED_VECTOR: u8 = 0xf3;
/// A space ends: CPUs that keep it lazily leave it.
pub const LEAVE_SPACE_VECTOR: u8 = 0xf4;
const SPURIOUS_VECTOR: u32 = 0xff;

const PERIODIC: u32 = 1 << 17;
const MASKED: u32 = 1 << 16;

fn read(register: usize) -> u32 {
    // SAFETY: the controller's page is mapped before this is called, and every register is 16 bytes aligned
    // in it.
    unsafe { ptr::with_exposed_provenance::<u32>(APIC_PAGE + register).read_volatile() }
}

fn write(register: usize, value: u32) {
    // SAFETY: as `read`; the controller writes no memory.
    unsafe { ptr::with_exposed_provenance_mut::<u32>(APIC_PAGE + register).write_volatile(value) }
}

/// Masks the two 8259 controllers, which would interrupt with vectors of exceptions. Called once.
pub fn mask_legacy_pics() {
    for port in [0x21, 0xa1] {
        // SAFETY: the mask registers of the two 8259s, which touch no memory.
        unsafe { ports::write_u8(port, 0xff) };
    }
}

/// Turns this CPU's controller on.
pub fn init() {
    write(SPURIOUS, 0x100 | SPURIOUS_VECTOR);
    write(TIMER, MASKED);
}

/// This CPU's number at the controllers.
pub fn id() -> u32 {
    read(ID) >> 24
}

/// Acknowledges an interrupt.
pub fn end_of_interrupt() {
    write(END, 0);
}

/// Sends a command to another CPU's controller. Interrupts are off between the two halves: a handler might
/// send a command too.
fn command(to: u32, what: u32) {
    let state = Core::interrupts_off();
    write(COMMAND_HIGH, to << 24);
    write(COMMAND_LOW, what);
    // Until this CPU's controller has delivered it, which waits for no other CPU.
    while read(COMMAND_LOW) & 1 << 12 != 0 {
        core::hint::spin_loop();
    }
    Core::interrupts_restore(state);
}

/// Interrupts a CPU.
pub fn send(to: u32, vector: u8) {
    command(to, 0x4000 | u32::from(vector));
}

/// Sends a CPU a system management interrupt.
pub fn send_smi(to: u32) {
    command(to, 0x4200);
}

/// Resets a CPU, and then starts it in real mode at `page << 12`.
pub fn start(to: u32, page: u8) {
    command(to, 0x4500);
    clock::delay_us(10_000);
    for _ in 0..2 {
        command(to, 0x4600 | u32::from(page));
        clock::delay_us(200);
    }
}

/// Ticks of the timer in 10 ms.
pub fn calibrate() -> u32 {
    write(TIMER_DIVIDE, 0b1011);
    write(TIMER_INITIAL, u32::MAX);
    clock::delay_us(10_000);
    let left = read(TIMER_CURRENT);
    write(TIMER_INITIAL, 0);
    u32::MAX - left
}

/// The timer interrupts this CPU no more.
pub fn no_ticks() {
    write(TIMER, MASKED);
}

/// Makes the timer interrupt this CPU once in `ticks` ticks.
pub fn tick_every(ticks: u32) {
    write(TIMER_DIVIDE, 0b1011);
    write(TIMER, PERIODIC | u32::from(TIMER_VECTOR));
    write(TIMER_INITIAL, ticks.max(1));
}
