//! Instructions of a program that the plugin recognises by their bytes.

/// The meaning of an instruction of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Nothing.
    None,
    /// A system call.
    Call,
    /// Windows count from here on.
    Begin,
    /// Windows do not count any more.
    End,
}

/// `nop dword ptr [rax + rax * 1 + MAGIC]`: does nothing, and no compiler makes one with this displacement.
const BEGIN: [u8; 8] = [0x0f, 0x1f, 0x84, 0x00, 0x42, 0x4c, 0x49, 0x01];
/// The same with another displacement.
const END: [u8; 8] = [0x0f, 0x1f, 0x84, 0x00, 0x45, 0x4c, 0x49, 0x01];
const SYSCALL: [u8; 2] = [0x0f, 0x05];

impl Mark {
    /// The mark of one instruction's bytes.
    pub fn of(instruction: &[u8]) -> Mark {
        match instruction {
            i if i == BEGIN => Mark::Begin,
            i if i == END => Mark::End,
            i if i == SYSCALL => Mark::Call,
            _ => Mark::None,
        }
    }

    /// The mark as a number, for the emulator to keep.
    pub fn number(self) -> usize {
        self as usize
    }

    /// The mark with this number.
    pub fn from_number(number: usize) -> Mark {
        match number {
            1 => Mark::Call,
            2 => Mark::Begin,
            3 => Mark::End,
            _ => Mark::None,
        }
    }
}

#[cfg(test)]
#[path = "tests/mark.rs"]
mod tests;
