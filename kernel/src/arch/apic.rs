//! The local interrupt controller: interrupts between CPUs, and the timer. Source: Intel SDM volume 3,
//! chapter 11.

use super::clock;
use super::cpu::with_interrupts_off;
use super::ports::Port;
use super::space::APIC_PAGE;
use core::ptr;

/// Registers that are read, by their offset in the page.
#[derive(Clone, Copy)]
#[repr(usize)]
enum Register {
    Id = 0x20,
    CommandLow = 0x300,
    TimerCurrent = 0x390,
}

/// The command register, in two halves: writing the lower one sends.
const COMMAND_LOW: usize = 0x300;
const COMMAND_HIGH: usize = 0x310;

/// What is written to this CPU's controller, but for commands: nothing here concerns another CPU, or makes an
/// interrupt of another vector than those of [`Vector`].
#[derive(Clone, Copy)]
enum Setting {
    /// The interrupt that is handled is over.
    End,
    /// The controller is on.
    On,
    TimerOff,
    /// The timer interrupts again and again.
    TimerPeriodic,
    /// Ticks that the timer counts down; 0 stops it.
    TimerTicks(u32),
    /// A tick is a cycle of the bus.
    TimerDivide1,
}

impl Setting {
    /// The register's offset, and the word.
    const fn encode(self) -> (usize, u32) {
        match self {
            Setting::End => (0xb0, 0),
            Setting::On => (0xf0, 0x100 | Vector::SPURIOUS.0 as u32),
            Setting::TimerOff => (0x320, MASKED),
            Setting::TimerPeriodic => (0x320, PERIODIC | Vector::TIMER.0 as u32),
            Setting::TimerTicks(ticks) => (0x380, ticks),
            Setting::TimerDivide1 => (0x3e0, 0b1011),
        }
    }
}

/// A vector of the controller's interrupts: one whose entry expects no error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vector(u8);

impl Vector {
    /// The timer's vector: the lowest of these.
    pub const TIMER: Vector = Vector(0xf0);
    /// Another CPU asks for the library's interrupt handler.
    pub const HANDLER: Vector = Vector(0xf1);
    /// Another CPU asks for a full fence.
    pub const BARRIER: Vector = Vector(0xf2);
    /// Another CPU has made a thread ready, or wants this one to leave a space that it holds lazily.
    pub const RESCHED: Vector = Vector(0xf3);
    const SPURIOUS: Vector = Vector(0xff);

    /// The vector with this number; `None` for an exception's, or one that nothing sends.
    pub fn of_number(number: u64) -> Option<Self> {
        u8::try_from(number).ok().filter(|&number| number >= Self::TIMER.0).map(Vector)
    }
}

const PERIODIC: u32 = 1 << 17;
const MASKED: u32 = 1 << 16;

fn read(register: Register) -> u32 {
    let at = ptr::with_exposed_provenance::<u32>(APIC_PAGE + register as usize);
    // SAFETY: `space` keeps these addresses for the controller's page. The register is aligned in it, and
    // reading it changes no memory. Before the page is mapped the access faults, which ends the machine.
    unsafe { at.read_volatile() }
}

/// Writes a register.
///
/// # Safety
/// `offset` is a register's, and what the controller then does, to this CPU or to another, is wanted.
unsafe fn store(offset: usize, value: u32) {
    let at = ptr::with_exposed_provenance_mut::<u32>(APIC_PAGE + offset);
    // SAFETY: as in `read`; the controller writes no memory.
    unsafe { at.write_volatile(value) }
}

fn write(setting: Setting) {
    let (offset, value) = setting.encode();
    // SAFETY: what a setting does is harmless at any time: a wrong one delays interrupts, or sends this CPU
    // the timer's, which it takes where it has interrupts on.
    unsafe { store(offset, value) };
}

/// Masks the two 8259 controllers, which would interrupt with vectors of exceptions. Called once.
pub fn mask_legacy_pics() {
    for number in [0x21, 0xa1] {
        // SAFETY: the controllers access no memory, and raise no interrupt once everything is masked.
        let mask = unsafe { Port::new(number) };
        mask.write_u8(0xff);
    }
}

/// Turns this CPU's controller on.
pub fn init() {
    write(Setting::On);
    write(Setting::TimerOff);
}

/// This CPU's number at the controllers.
pub fn id() -> u32 {
    read(Register::Id) >> 24
}

/// Acknowledges an interrupt.
pub fn end_of_interrupt() {
    write(Setting::End);
}

/// Sends a command to another CPU's controller. Interrupts are off between the two halves: a handler might
/// send a command too.
///
/// # Safety
/// The other CPU may be interrupted, or restarted, as the command says.
unsafe fn command(to: u32, what: u32) {
    with_interrupts_off(|_| {
        // SAFETY: the upper half sends nothing.
        unsafe { store(COMMAND_HIGH, to << 24) };
        // SAFETY: the caller's promise.
        unsafe { store(COMMAND_LOW, what) };
        // Until this CPU's controller has delivered it, which waits for no other CPU.
        while read(Register::CommandLow) & 1 << 12 != 0 {
            core::hint::spin_loop();
        }
    });
}

/// Interrupts a CPU.
pub fn send(to: u32, vector: Vector) {
    // SAFETY: a CPU takes an interrupt where it has interrupts on, and these vectors' entries keep all
    // registers.
    unsafe { command(to, 0x4000 | u32::from(vector.0)) };
}

/// Sends a CPU a system management interrupt.
///
/// # Safety
/// The handler of the mode returns, and changes nothing that running code relies on.
pub unsafe fn send_smi(to: u32) {
    // SAFETY: the caller's promise.
    unsafe { command(to, 0x4200) };
}

/// Resets a CPU, and then starts it in real mode at `page << 12`. Source: SDM volume 3, section 9.4.4.
///
/// # Safety
/// The CPU has not started, and may execute what lies there.
pub unsafe fn start(to: u32, page: u8) {
    // SAFETY: the CPU runs nothing that could be lost by a reset.
    unsafe { command(to, 0x4500) };
    clock::delay_us(10_000);
    for _ in 0..2 {
        // SAFETY: the caller's promise; a second command to a CPU that has started is ignored.
        unsafe { command(to, 0x4600 | u32::from(page)) };
        clock::delay_us(200);
    }
}

/// Ticks of the timer in 10 ms.
pub fn calibrate() -> u32 {
    write(Setting::TimerDivide1);
    write(Setting::TimerTicks(u32::MAX));
    clock::delay_us(10_000);
    let left = read(Register::TimerCurrent);
    write(Setting::TimerTicks(0));
    u32::MAX - left
}

/// The timer interrupts this CPU no more.
pub fn no_ticks() {
    write(Setting::TimerOff);
}

/// Makes the timer interrupt this CPU once in `ticks` ticks.
pub fn tick_every(ticks: u32) {
    write(Setting::TimerDivide1);
    write(Setting::TimerPeriodic);
    write(Setting::TimerTicks(ticks.max(1)));
}
