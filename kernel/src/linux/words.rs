//! A program's structures, as words of 8 bytes.

use crate::arch::user::{self, BadAddress};
use interleaf::units::VirtAddr;

/// Reads `N` words.
pub fn read<const N: usize>(at: u64) -> Result<[u64; N], BadAddress> {
    let mut bytes = [[0; 8]; N];
    user::read(VirtAddr(at), bytes.as_flattened_mut())?;
    Ok(bytes.map(u64::from_le_bytes))
}

/// Writes `N` words.
pub fn write<const N: usize>(at: u64, words: [u64; N]) -> Result<(), BadAddress> {
    user::write(VirtAddr(at), words.map(u64::to_le_bytes).as_flattened())
}
