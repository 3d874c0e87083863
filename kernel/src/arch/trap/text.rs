//! A frame in reports.

use super::Frame;
use core::fmt;

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.vector {
            0 => "division",
            1 => "debug trap",
            2 => "NMI",
            3 => "breakpoint",
            4 => "overflow",
            6 => "undefined instruction",
            8 => "double fault",
            12 => "stack segment",
            13 => "general protection",
            14 => "page fault",
            16 => "x87 exception",
            17 => "alignment check",
            18 => "machine check",
            19 => "SSE exception",
            _ => "vector",
        };
        let ring = self.cs & 3;
        writeln!(f, "  {name} ({}), error {:#x}, in ring {ring}", self.vector, self.error)?;
        writeln!(f, "  rip {:#018x}  rsp {:#018x}  rflags {:#x}", self.rip, self.rsp, self.rflags)?;
        writeln!(f, "  rax {:#018x}  rbx {:#018x}  rcx {:#018x}", self.rax, self.rbx, self.rcx)?;
        writeln!(f, "  rdx {:#018x}  rsi {:#018x}  rdi {:#018x}", self.rdx, self.rsi, self.rdi)?;
        writeln!(f, "  rbp {:#018x}  r8  {:#018x}  r9  {:#018x}", self.rbp, self.r8, self.r9)?;
        writeln!(f, "  r10 {:#018x}  r11 {:#018x}  r12 {:#018x}", self.r10, self.r11, self.r12)?;
        write!(f, "  r13 {:#018x}  r14 {:#018x}  r15 {:#018x}", self.r13, self.r14, self.r15)
    }
}
