//! Files that tell of memory, read whole; and what a process may ask about itself.

use super::{Errno, call, nr};
use core::ffi::CStr;

/// The folder that a name without one is in; for absolute names it does not matter.
const HERE: usize = -100_isize as usize;
/// PR_SET_THP_DISABLE and PR_GET_THP_DISABLE.
const SET_THP_DISABLE: usize = 41;
const GET_THP_DISABLE: usize = 42;
/// Words of a `struct rusage`, and the one that says the most resident memory.
const USAGE_WORDS: usize = 18;
const MAXRSS: usize = 4;

/// Whose memory is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// This process's.
    Own,
    /// That of children that were waited for: the one that had most.
    Childrens,
}

/// Reads a file into `to`, as far as it fits.
pub fn read_file<'a>(name: &CStr, to: &'a mut [u8]) -> Result<&'a [u8], Errno> {
    // SAFETY: the kernel reads the name.
    let file = unsafe { call(nr::OPENAT, [HERE, name.as_ptr().expose_provenance(), 0, 0, 0, 0]) }?;
    let mut filled = 0;
    let read = loop {
        let rest = &mut to[filled..];
        let (at, room) = (rest.as_mut_ptr().expose_provenance(), rest.len());
        // SAFETY: the kernel writes into the rest of the buffer.
        match unsafe { call(nr::READ, [file, at, room, 0, 0, 0]) } {
            Ok(0) => break Ok(()),
            Ok(bytes) => filled += bytes,
            Err(error) => break Err(error),
        }
    };
    // SAFETY: the file was opened here.
    let _ = unsafe { call(nr::CLOSE, [file, 0, 0, 0, 0, 0]) };
    read.map(|()| &to[..filled])
}

/// The number behind a name, at the beginning of a line of the text: of `name: 12 kB` or `name 12`.
pub fn number_in(text: &[u8], name: &str) -> Option<u64> {
    let after = text.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(name.as_bytes()))?;
    let is_digit = |byte: &&u8| byte.is_ascii_digit();
    let start = after.iter().position(|byte| byte.is_ascii_digit())?;
    // A longer name begins alike.
    let between = after[..start].iter().all(|byte| b": \t".contains(byte)) && start > 0;
    let digits = after[start..].iter().take_while(is_digit);
    between.then(|| digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

/// `prctl(PR_SET_THP_DISABLE)`: disables huge pages for this process, with Linux's flags, or enables them.
pub fn set_thp_disable(disable: bool, flags: usize) -> Result<(), Errno> {
    // SAFETY: it takes numbers alone.
    unsafe { call(nr::PRCTL, [SET_THP_DISABLE, usize::from(disable), flags, 0, 0, 0]) }.map(drop)
}

/// `prctl(PR_GET_THP_DISABLE)`: whether huge pages are disabled for this process, as Linux says it.
pub fn thp_disable() -> Result<usize, Errno> {
    // SAFETY: as above.
    unsafe { call(nr::PRCTL, [GET_THP_DISABLE, 0, 0, 0, 0, 0]) }
}

/// The most resident memory, in KiB.
pub fn most_resident(whose: Whose) -> Result<u64, Errno> {
    let mut usage = [0_u64; USAGE_WORDS];
    let who = if whose == Whose::Own { 0 } else { usize::MAX };
    // SAFETY: the kernel writes the usage.
    unsafe { call(nr::GETRUSAGE, [who, (&raw mut usage).expose_provenance(), 0, 0, 0, 0]) }?;
    Ok(usage[MAXRSS])
}
