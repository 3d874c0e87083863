//! Single instructions that raise a signal: each is tried, skipped by the handler, and what the handler was
//! told is returned.
//!
//! ```text
//!   attempt ─► notes where it goes on ─► the instruction ─► signal ─► skip: rip = where it goes on ─┐
//!           ◄─ what was told, if anything ◄─────────────────────────────────────────────────────────┘
//! ```
//! One thread at a time: the words that it uses are statics.

use super::signal::{self, Action, Caught, FLAGS, NODEFER, RIP, Told, set_action, set_handler};
use super::{Errno, PAGE, Region, Rights, nr};
use core::arch::asm;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Where the attempt under way goes on; 0 for none.
static GO_ON_AT: AtomicUsize = AtomicUsize::new(0);
/// What the handler was told, word by word, and whether it was.
static TOLD: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];
static WAS_TOLD: AtomicBool = AtomicBool::new(false);
/// The trap flag.
const SINGLE_STEP: u64 = 0x100;

/// Has every signal that an instruction can raise skip it.
pub fn skip_traps() -> Result<(), Errno> {
    for signal in [signal::SIGILL, signal::SIGTRAP, signal::SIGBUS, signal::SIGFPE, signal::SIGSEGV] {
        set_handler(signal, skip);
        set_action(signal, Action::handle(NODEFER, 0))?;
    }
    Ok(())
}

fn skip(caught: &mut Caught<'_>) {
    let t = caught.told();
    let words = [t.signal as u64, t.code as u64, t.address as u64, t.error, t.vector, t.cr2 as u64, t.mask];
    TOLD.iter().zip(words).for_each(|(to, word)| to.store(word, Relaxed));
    TOLD[7].store(t.has_state.into(), Relaxed);
    WAS_TOLD.store(true, Relaxed);
    let to = GO_ON_AT.swap(0, Relaxed);
    if to == 0 {
        crate::say::broken(format_args!("signal {} outside of an attempt: {t:x?}", t.signal));
    }
    caught.context.registers[RIP] = to as u64;
    caught.context.registers[FLAGS] &= !SINGLE_STEP;
}

fn told() -> Option<Told> {
    GO_ON_AT.store(0, Relaxed);
    let [signal, code, address, error, vector, cr2, mask, state] =
        TOLD.each_ref().map(|word| word.load(Relaxed));
    WAS_TOLD.swap(false, Relaxed).then_some(Told {
        signal: signal as usize,
        code: code as i32,
        address: address as usize,
        error,
        vector,
        cr2: cr2 as usize,
        mask,
        has_state: state != 0,
    })
}

/// Tries an instruction at label 3, which may be skipped to label 2; what was told, and the instruction's
/// address. The words before it prepare it, those behind it undo that.
macro_rules! attempt {
    ([$($before:literal),*], $instruction:literal, [$($after:literal),*], $($operands:tt)*) => {{
        let at: usize;
        asm!(
            "lea r14, [rip + 2f]", "mov [r13], r14", "lea r14, [rip + 3f]",
            $($before,)* "3:", $instruction, "2:", $($after,)*
            out("r14") at, in("r13") GO_ON_AT.as_ptr(), $($operands)*
        );
        (told(), at)
    }};
}

/// Loads a byte from any address.
pub fn try_load(from: usize) -> Option<Told> {
    // SAFETY: a load changes nothing; where it faults, the handler skips it.
    unsafe { attempt!([], "mov {byte}, [{from}]", [], from = in(reg) from, byte = out(reg_byte) _).0 }
}

/// Stores a byte where no program's memory can be: beyond the lower half.
pub fn try_store_beyond(to: usize) -> Option<Told> {
    assert!(to >= 1 << 56);
    // SAFETY: no memory of a program lies there.
    unsafe { attempt!([], "mov byte ptr [{to}], 1", [], to = in(reg) to,).0 }
}

/// Loads a byte from an address in the base of the stack frame, which raises an exception of its own.
pub fn try_load_from_stack(from: usize) -> Option<Told> {
    // SAFETY: a load changes nothing; the register is restored where it was and where it was not skipped.
    unsafe {
        attempt!(["push rbp", "mov rbp, {from}"], "mov {byte}, [rbp]", ["pop rbp"],
            from = in(reg) from, byte = out(reg_byte) _)
        .0
    }
}

/// Stores `bytes` ones, 1 or 8, at byte `at` of a region.
pub fn try_store(region: &Region, at: usize, bytes: usize) -> Option<Told> {
    assert!(at + bytes <= region.pages() * PAGE && (bytes == 1 || bytes == 8));
    let to = region.start() + at;
    // SAFETY: a store to memory that is not Rust's.
    unsafe {
        match bytes {
            1 => attempt!([], "mov byte ptr [{to}], 1", [], to = in(reg) to,).0,
            _ => attempt!([], "mov qword ptr [{to}], -1", [], to = in(reg) to,).0,
        }
    }
}

/// A page of data, which is never given the right to be executed.
#[derive(Clone, Copy, Debug)]
pub struct DataPage(usize);

impl DataPage {
    /// A page that may be read alone. It is there if it `is_touched`, and holds instructions that return.
    pub fn map(is_touched: bool) -> Result<DataPage, Errno> {
        let region = Region::map(1, if is_touched { Rights::WRITE } else { Rights::READ })?;
        if is_touched {
            (0..PAGE / 8).for_each(|word| region.write(0, word, u64::from_ne_bytes([0xc3; 8])));
            region.protect(Rights::READ)?;
        }
        Ok(DataPage(region.start()))
    }

    /// A page where nothing is mapped.
    pub fn missing() -> Result<DataPage, Errno> {
        let region = Region::map(1, Rights::NONE)?;
        region.unmap()?;
        Ok(DataPage(region.start()))
    }

    /// Its address.
    pub fn start(&self) -> usize {
        self.0
    }

    /// Executes its first byte, which a CPU refuses.
    pub fn try_execute(&self) -> Option<Told> {
        let to = self.0;
        // SAFETY: it is refused, and the stack is as it was before the call. (A kernel that let it through
        // would have it return, or fault on.)
        unsafe {
            attempt!(["mov r12, rsp"], "call {to}", ["mov rsp, r12"], to = in(reg) to, out("r12") _,
                clobber_abi("C"))
            .0
        }
    }
}

/// An instruction that raises an exception of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Odd {
    /// A division of integers by zero.
    Divide,
    /// One that is undefined.
    Undefined,
    /// A breakpoint.
    Breakpoint,
    /// An overflow, by its interrupt.
    Overflow,
    /// One that is the kernel's.
    Privileged,
    /// A load that is not aligned, while that is checked.
    Unaligned,
    /// One after which the CPU traps.
    Step,
    /// A trap that debuggers use.
    DebugTrap,
    /// A division by zero in SSE registers, not masked.
    SseDivide,
    /// In x87 registers.
    X87Divide,
    /// An invalid operation in SSE registers.
    SseInvalid,
}

/// Tries one; what was told, and its address.
pub fn try_odd(what: Odd) -> (Option<Told>, usize) {
    // SAFETY: each changes registers that are named, flags and control words, which are as before at its end,
    // whether it is skipped or not.
    unsafe {
        match what {
            Odd::Divide => attempt!(["xor edx, edx", "mov eax, 1", "xor ecx, ecx"], "div ecx", [],
                out("rax") _, out("rdx") _, out("rcx") _),
            Odd::Undefined => attempt!([], "ud2", [],),
            Odd::Breakpoint => attempt!([], "int3", [],),
            Odd::Overflow => attempt!([], ".byte 0xcd, 4", [],),
            Odd::Privileged => attempt!([], "hlt", [],),
            Odd::Unaligned => attempt!(["pushfq", "or qword ptr [rsp], 0x40000", "popfq"],
                "mov {to}, [{from} + 1]", ["pushfq", "and qword ptr [rsp], -0x40001", "popfq"],
                from = in(reg) &raw const WORDS, to = out(reg) _),
            Odd::Step => attempt!(["pushfq", "or qword ptr [rsp], 0x100", "popfq"], "nop", [],),
            Odd::DebugTrap => attempt!([], ".byte 0xf1", [],),
            Odd::SseDivide => sse_division(1.0, &UNMASKED_DIVISION),
            Odd::SseInvalid => sse_division(0.0, &UNMASKED_INVALID),
            Odd::X87Divide => attempt!(["fninit", "fldcw [{mask}]", "fldz", "fld1", "fdiv st(0), st(1)"],
                "fwait", ["fninit"], mask = in(reg) &raw const X87_UNMASKED_DIVISION,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _),
        }
    }
}

/// Two words, of which an address in between is not aligned.
static WORDS: [u64; 2] = [0; 2];
/// MXCSR as it is, and without the mask of one exception; the control word of x87 likewise.
static USUAL: u32 = 0x1f80;
static UNMASKED_DIVISION: u32 = 0x1f80 & !0x200;
static UNMASKED_INVALID: u32 = 0x1f80 & !0x80;
static X87_UNMASKED_DIVISION: u16 = 0x037f & !4;

/// Divides by zero with this MXCSR.
fn sse_division(dividend: f32, mxcsr: &u32) -> (Option<Told>, usize) {
    // SAFETY: as in `try_odd`.
    unsafe {
        attempt!(["ldmxcsr [{mask}]"], "divss {x}, {zero}", ["ldmxcsr [{usual}]"],
            mask = in(reg) &raw const *mxcsr, usual = in(reg) &raw const USUAL,
            x = inout(xmm_reg) dividend => _, zero = in(xmm_reg) 0f32)
    }
}

/// What a store found in registers behind it that a handler had interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// r12 and r15, which were 0x1212 and 0x1515.
    pub r12: u64,
    /// As above.
    pub r15: u64,
    /// The low word of xmm7, which was 0x7777.
    pub xmm7: u32,
    /// Whether the carry is set, as it was.
    pub carry: bool,
}

/// Stores a byte to the first page of a region, with known values in registers. Handlers that return have it
/// tried again.
pub fn store_with_registers(region: &Region) -> Kept {
    let (r12, r15, xmm7, carry): (u64, u64, u32, u8);
    // SAFETY: a store to memory that is not Rust's; registers are named.
    unsafe {
        asm!("mov r12, 0x1212", "mov r15, 0x1515", "mov eax, 0x7777", "movd xmm7, eax", "stc",
            "mov byte ptr [{to}], 9", "setc cl", "movd eax, xmm7",
            to = in(reg) region.start(), out("r12") r12, out("r15") r15, out("eax") xmm7, out("cl") carry,
            out("xmm7") _);
    }
    Kept { r12, r15, xmm7, carry: carry != 0 }
}

/// Touches address 8 with the stack pointer at the end of a region: a store that nothing can handle there.
pub fn fault_with_stack_at_end_of(region: &Region) -> ! {
    let end = region.start() + region.pages() * PAGE;
    // SAFETY: nothing of Rust's is used any more, whatever the store does: behind it stands an instruction
    // that cannot be executed.
    unsafe { asm!("mov rsp, {end}", "mov byte ptr [8], 1", "ud2", end = in(reg) end, options(noreturn)) }
}

/// Goes back from a signal that there was none: the stack has nonsense where the context would be.
pub fn return_from_no_signal(nonsense: &Region) -> ! {
    let at = nonsense.start();
    // SAFETY: as above.
    unsafe {
        asm!("mov rsp, {at}", "mov eax, {number:e}", "syscall", "ud2", at = in(reg) at,
            number = in(reg) nr::RT_SIGRETURN as u32, options(noreturn))
    }
}
