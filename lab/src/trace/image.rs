//! An address space at one moment: what `/proc/PID/smaps` and `/proc/PID/stat` say of a stopped process.

use serde::{Deserialize, Serialize};

/// The map of a process at a moment when none of its threads ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// The program (`/proc/PID/exe`).
    pub program: String,
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

impl Image {
    /// The mapping that holds `address`.
    pub fn find(&self, address: u64) -> Option<&Mapping> {
        let at = self.mappings.partition_point(|m| m.end <= address);
        self.mappings.get(at).filter(|m| m.start <= address)
    }

    /// Whether this can be a map at all: rising, disjoint, page-aligned, rights of four letters.
    pub fn check(&self) -> Result<(), String> {
        let mut last = 0;
        for m in &self.mappings {
            if m.start < last || m.end <= m.start || m.start % 4096 != 0 || m.end % 4096 != 0 {
                return Err(format!("a map with {:#x}..{:#x} after {last:#x}", m.start, m.end));
            }
            if m.rights.len() != 4 || !m.rights.is_ascii() {
                return Err(format!("rights '{}' of a mapping", m.rights.escape_debug()));
            }
            last = m.end;
        }
        Ok(())
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
mod tests {
    use super::*;

    const SMAPS: &str = "\
55d0-55e0000 r--p 00000000 fe:00 77   /usr/bin/a file: (deleted)
Rss:                  44 kB
VmFlags: rd mr mw me sd
7ffd000-7ffe000 rw-p 00000000 00:00 0          [stack]
Rss:                  12 kB
THPeligible:           0
VmFlags: rd wr mr mw me gd ac
";

    #[test]
    fn smaps_gives_mappings_with_residency_and_flags() {
        let maps = parse_smaps(SMAPS).unwrap();
        assert_eq!(maps.len(), 2);
        assert_eq!(maps[0].name, "/usr/bin/a file: (deleted)");
        assert_eq!((maps[0].inode, maps[0].rss_kib), (77, 44));
        assert_eq!(maps[1].flags, "rd wr mr mw me gd ac");
        assert!(maps[1].is_writable() && !maps[1].is_executable() && !maps[1].is_shared());
    }

    #[test]
    fn a_line_that_is_no_mapping_is_quoted() {
        assert!(parse_smaps("what is this").unwrap_err().contains("what is this"));
    }

    #[test]
    fn a_map_that_overlaps_itself_is_refused() {
        let m = |start, end| Mapping { start, end, rights: "rw-p".into(), ..Mapping::default() };
        let image = |mappings| Image { mappings, ..Image::default() };
        assert!(image(vec![m(0x1000, 0x3000), m(0x3000, 0x4000)]).check().is_ok());
        assert!(image(vec![m(0x1000, 0x3000), m(0x2000, 0x4000)]).check().is_err());
        assert!(image(vec![m(0x1000, 0x1000)]).check().is_err());
        assert!(image(vec![m(0x1001, 0x2000)]).check().is_err());
    }

    #[test]
    fn find_answers_by_address() {
        let m = |start, end| Mapping { start, end, rights: "rw-p".into(), ..Mapping::default() };
        let image = Image { mappings: vec![m(0x1000, 0x3000), m(0x5000, 0x6000)], ..Image::default() };
        assert_eq!(image.find(0x2fff).unwrap().start, 0x1000);
        assert_eq!(image.find(0x3000), None);
        assert_eq!(image.find(0x5000).unwrap().start, 0x5000);
    }
}
