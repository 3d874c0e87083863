//! The local interrupt controller: interrupts between CPUs, and the timer. Source: Intel SDM volume 3,
//! chapter 11.

use super::clock;
use super::cpu::with_interrupts_off;
use super::ports::Port;
use super::space::APIC_PAGE;
use core::ptr;

/// Registers that are used, by their offset in the page.
#[derive(Clone, Copy)]
#[repr(usize)]
enum Register {
    Id = 0x20,
    End = 0xb0,
    Spurious = 0xf0,
    CommandLow = 0x300,
    CommandHigh = 0x310,
    Timer = 0x320,
    TimerInitial = 0x380,
    TimerCurrent = 0x390,
    TimerDivide = 0x3e0,
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
    /// A space ends: CPUs that keep it lazily leave it.
    pub const LEAVE_SPACE: Vector = Vector(0xf4);
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

fn write(register: Register, value: u32) {
    let at = ptr::with_exposed_provenance_mut::<u32>(APIC_PAGE + register as usize);
    // SAFETY: as `read`; the controller writes no memory. What it does to other CPUs is said by `command`.
    unsafe { at.write_volatile(value) }
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
    write(Register::Spurious, 0x100 | u32::from(Vector::SPURIOUS.0));
    write(Register::Timer, MASKED);
}

/// This CPU's number at the controllers.
pub fn id() -> u32 {
    read(Register::Id) >> 24
}

/// Acknowledges an interrupt.
pub fn end_of_interrupt() {
    write(Register::End, 0);
}

/// Sends a command to another CPU's controller. Interrupts are off between the two halves: a handler might
/// send a command too.
///
/// # Safety
/// The other CPU may be interrupted, or restarted, as the command says.
unsafe fn command(to: u32, what: u32) {
    with_interrupts_off(|_| {
        write(Register::CommandHigh, to << 24);
        write(Register::CommandLow, what);
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
    write(Register::TimerDivide, 0b1011);
    write(Register::TimerInitial, u32::MAX);
    clock::delay_us(10_000);
    let left = read(Register::TimerCurrent);
    write(Register::TimerInitial, 0);
    u32::MAX - left
}

/// The timer interrupts this CPU no more.
pub fn no_ticks() {
    write(Register::Timer, MASKED);
}

/// Makes the timer interrupt this CPU once in `ticks` ticks.
pub fn tick_every(ticks: u32) {
    write(Register::TimerDivide, 0b1011);
    write(Register::Timer, PERIODIC | u32::from(Vector::TIMER.0));
    write(Register::TimerInitial, ticks.max(1));
}
