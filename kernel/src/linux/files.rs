//! Calls about the few files that there are: they are opened by name, read, and closed. The console's three
//! numbers are always open.

use super::{CallResult, time, words};
use crate::arch::{Core, user};
use crate::task::process;
use crate::vfs::{File, LONGEST_NAME};
use interleaf::machine::Cpu;
use interleaf::units::VirtAddr;
use interleaf_linux_abi::Errno;
use interleaf_linux_abi::task::*;

/// Numbers of the console.
const STDIN: u64 = 0;
const STDOUT: u64 = 1;
const STDERR: u64 = 2;

/// Bytes read at a time: all that a file says.
const CHUNK: usize = 2048;

/// Opens a file for reading. Names are absolute, so the folder of `openat` does not matter.
pub fn open(name_at: u64, flags: u64) -> CallResult {
    let mut name = [0; LONGEST_NAME];
    let file = File::named(read_name(name_at, &mut name)?).ok_or(Errno::ENOENT)?;
    if flags & O_CREAT != 0 && flags & O_EXCL != 0 {
        return Err(Errno::EEXIST);
    }
    if flags & O_DIRECTORY != 0 {
        return Err(Errno::ENOTDIR);
    }
    if flags & (O_ACCMODE | O_TRUNC) != 0 {
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

/// Reads on. A program's page that cannot be written leaves the file where it was. There is no keyboard:
/// number 0 has nothing to read.
pub fn read(number: u64, to: u64, len: u64) -> CallResult {
    if number == STDIN {
        return Ok(0);
    }
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

/// A number in a list of `poll`, and what is asked and told of it.
#[derive(Clone, Copy, Debug)]
struct Polled {
    number: i32,
    asked: u16,
}

impl Polled {
    fn of_word(word: u64) -> Self {
        Self { number: word as i32, asked: (word >> 32) as u16 }
    }

    /// What is told: no read or write ever waits.
    fn told(self) -> u16 {
        let ready = match u64::try_from(self.number) {
            Err(_) => return 0,
            Ok(STDIN) => POLLIN,
            Ok(STDOUT | STDERR) => POLLOUT,
            Ok(other) if process::current().files().get(other).is_some() => POLLIN,
            Ok(_) => return POLLNVAL,
        };
        self.asked & ready
    }

    fn word(self, told: u16) -> u64 {
        u64::from(self.number as u32) | u64::from(self.asked) << 32 | u64::from(told) << 48
    }
}

/// Which files can be read or written: at once, or never.
pub fn poll(at: u64, count: u64, timeout_ms: u64) -> CallResult {
    /// Most numbers of a list.
    const MOST: u64 = 1024;
    if count > MOST {
        return Err(Errno::EINVAL);
    }
    let mut ready = 0;
    for place in (0..count).map(|nth| at.wrapping_add(8 * nth)) {
        let [word] = words::read(place)?;
        let polled = Polled::of_word(word);
        let told = polled.told();
        ready += u64::from(told != 0);
        words::write(place, [polled.word(told)])?;
    }
    if ready == 0 {
        let timeout_ms = timeout_ms as i32;
        let ns = u64::try_from(timeout_ms).map_or(u64::MAX, |ms| ms * 1_000_000);
        time::sleep_until(Core::now_ns().saturating_add(ns))?;
    }
    Ok(ready)
}
