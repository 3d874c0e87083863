//! An address space at one moment: what `/proc/PID/smaps` and `/proc/PID/stat` say of a stopped process.

use serde::{Deserialize, Serialize};

/// The map of a process at a moment when none of its threads ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// The program (`/proc/PID/exe`).
    pub program: String,
    /// The name that the program was called by, its first argument; empty in traces of older recorders.
    #[serde(default)]
    pub called: String,
    /// Its layout as the kernel keeps it.
    pub layout: Layout,
    /// Its mappings by rising address, disjoint, merged as Linux shows them.
    pub mappings: Vec<Mapping>,
}

/// The landmarks of an address space, all of them addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Start of the heap that `brk` moves.
    pub start_brk: u64,
    /// Where the first stack frame is.
    pub start_stack: u64,
    /// Start of the argument strings.
    pub arg_start: u64,
    /// End of the argument strings.
    pub arg_end: u64,
    /// Start of the environment strings.
    pub env_start: u64,
    /// End of the environment strings.
    pub env_end: u64,
}

/// One mapping: a line of `/proc/PID/maps` and what `smaps` adds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// Rights and sharing, four letters as Linux writes them: `rw-p`.
    pub rights: String,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Device, as `major:minor` in hexadecimal; `00:00` for none.
    pub device: String,
    /// Inode number; 0 for anonymous memory.
    pub inode: u64,
    /// The file or Linux's name for it (`[stack]`, `[anon:...]`), or empty.
    pub name: String,
    /// Resident bytes, in KiB.
    pub rss_kib: u64,
    /// Linux's `VmFlags`, two letters each, separated by spaces.
    pub flags: String,
}

/// One past the last address that a process of x86-64 can have, with tables of five levels.
const USER_END: u64 = 1 << 56;

impl Image {
    /// The name that the program was called by, or the program's own.
    pub fn name(&self) -> &str {
        if self.called.is_empty() { &self.program } else { &self.called }
    }

    /// The mapping that holds `address`.
    pub fn find(&self, address: u64) -> Option<&Mapping> {
        let at = self.mappings.partition_point(|m| m.end <= address);
        self.mappings.get(at).filter(|m| m.start <= address)
    }

    /// Whether this can be a map at all: rising, disjoint, page-aligned, in user space, rights of four
    /// letters.
    ///
    /// # Errors
    /// What it has instead, in words that follow "an image is".
    pub fn check(&self) -> Result<(), String> {
        self.layout.check()?;
        let mut last = 0;
        for m in &self.mappings {
            if m.start < last || m.end <= m.start || m.start % 4096 != 0 || m.end % 4096 != 0 {
                return Err(format!("a map with {:#x}..{:#x} after {last:#x}", m.start, m.end));
            }
            if m.end > USER_END && m.name != "[vsyscall]" {
                return Err(format!("a map with {:#x}..{:#x}, beyond user space", m.start, m.end));
            }
            if m.rights.len() != 4 || !m.rights.is_ascii() {
                return Err(format!("rights '{}' of a mapping", m.rights.escape_debug()));
            }
            last = m.end;
        }
        Ok(())
    }
}

impl Layout {
    fn check(&self) -> Result<(), String> {
        let Layout { start_brk, start_stack, arg_start, arg_end, env_start, env_end } = *self;
        let all = [start_brk, start_stack, arg_start, arg_end, env_start, env_end];
        match all.into_iter().find(|&at| at > USER_END) {
            Some(at) => Err(format!("a map with a landmark at {at:#x}, beyond user space")),
            None => Ok(()),
        }
    }
}

impl Mapping {
    /// Whether its pages are shared with other processes that map the same thing.
    pub fn is_shared(&self) -> bool {
        self.rights.ends_with('s')
    }

    /// Whether loads are allowed.
    pub fn is_readable(&self) -> bool {
        self.rights.starts_with('r')
    }

    /// Whether stores are allowed.
    pub fn is_writable(&self) -> bool {
        self.rights.as_bytes().get(1) == Some(&b'w')
    }

    /// Whether instruction fetches are allowed.
    pub fn is_executable(&self) -> bool {
        self.rights.as_bytes().get(2) == Some(&b'x')
    }

    /// One line as `/proc/PID/maps` has it, less its padding.
    pub fn line(&self) -> String {
        let Mapping { start, end, rights, offset, device, inode, name, .. } = self;
        format!("{start:x}-{end:x} {rights} {offset:08x} {device} {inode} {name}").trim_end().to_string()
    }
}

/// Reads `/proc/PID/smaps` (or `maps`, which says less). Anything that cannot be understood is an error that
/// quotes the line.
pub fn parse_smaps(text: &str) -> Result<Vec<Mapping>, String> {
    let mut mappings: Vec<Mapping> = Vec::new();
    for line in text.lines() {
        let key = line.split_whitespace().next().unwrap_or("");
        if !key.ends_with(':') || key.contains('-') {
            mappings.push(parse_line(line).ok_or_else(|| format!("cannot read the map line '{line}'"))?);
        } else if let Some(mapping) = mappings.last_mut() {
            match key {
                "Rss:" => mapping.rss_kib = kib(line).ok_or_else(|| format!("cannot read '{line}'"))?,
                "VmFlags:" => mapping.flags = line["VmFlags:".len()..].trim().to_string(),
                _ => {}
            }
        }
    }
    Ok(mappings)
}

fn kib(line: &str) -> Option<u64> {
    line.split_whitespace().nth(1)?.parse().ok()
}

fn parse_line(line: &str) -> Option<Mapping> {
    let mut rest = line;
    let mut word = || {
        rest = rest.trim_start();
        let (word, after) = rest.split_at(rest.find(' ').unwrap_or(rest.len()));
        rest = after;
        word
    };
    let (start, end) = word().split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    let rights = word().to_string();
    let offset = u64::from_str_radix(word(), 16).ok()?;
    let device = word().to_string();
    let inode = word().parse().ok()?;
    let name = rest.trim_start().to_string();
    Some(Mapping { start, end, rights, offset, device, inode, name, ..Mapping::default() })
}

#[cfg(test)]
#[path = "tests/image.rs"]
mod tests;
