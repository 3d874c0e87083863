//! Calls about the few files that there are: they are opened by name, read, and closed.

use super::CallResult;
use crate::arch::user;
use crate::task::process;
use crate::vfs::{File, LONGEST_NAME};
use interleaf::units::VirtAddr;
use interleaf_linux_abi::Errno;
use interleaf_linux_abi::task::O_ACCMODE;

/// Bytes read at a time: all that a file says.
const CHUNK: usize = 2048;

/// Opens a file for reading. Names are absolute, so the folder of `openat` does not matter.
pub fn open(name_at: u64, flags: u64) -> CallResult {
    let mut name = [0; LONGEST_NAME];
    let file = File::named(read_name(name_at, &mut name)?).ok_or(Errno::ENOENT)?;
    if flags & O_ACCMODE != 0 {
        return Err(Errno::EACCES);
    }
    process::current().files().open(file.number()).ok_or(Errno::EMFILE)
}

/// The bytes up to a zero. Byte by byte: the page behind the name may not be there.
fn read_name(at: u64, name: &mut [u8; LONGEST_NAME]) -> Result<&[u8], Errno> {
    for len in 0..name.len() {
        user::read(VirtAddr(at.wrapping_add(len as u64)), &mut name[len..=len])?;
        if name[len] == 0 {
            return Ok(&name[..len]);
        }
    }
    // Longer than any name that there is.
    Err(Errno::ENOENT)
}

/// Reads on. A program's page that cannot be written leaves the file where it was.
pub fn read(number: u64, to: u64, len: u64) -> CallResult {
    let files = process::current().files();
    let open = files.get(number).ok_or(Errno::EBADF)?;
    let file = File::numbered(open.file).ok_or(Errno::EBADF)?;
    let mut chunk = [0; CHUNK];
    let chunk = &mut chunk[..len.min(CHUNK as u64) as usize];
    let filled = file.read(open.offset, chunk);
    user::write(VirtAddr(to), &chunk[..filled])?;
    files.advance(number, open, filled as u32);
    Ok(filled as u64)
}

pub fn close(number: u64) -> CallResult {
    if process::current().files().close(number) { Ok(0) } else { Err(Errno::EBADF) }
}
