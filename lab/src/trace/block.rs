//! The frame of a trace file: magic, version, then blocks, each with its own checksum.
//!
//! ```text
//! offset 0   8 bytes   magic  "ILTRACE\n"
//!        8   4 bytes   version, little-endian
//!       12   blocks, each:
//!              1 byte    kind: 1 header, 2 image, 3 events, 4 footer
//!              4 bytes   length of the content before compression
//!              4 bytes   length of the content as stored (zstd)
//!              8 bytes   CRC-64 of the block's number, the nine bytes above and the stored content
//!              stored content
//! ```
//!
//! The block's number (0, 1, 2, ...) is in the checksum and not in the file, so blocks cannot change places.
//! The first block is the header, the last is the footer, and nothing may follow it: a cut file is always
//! noticed. Lengths are bounded before anything is allocated: by kind, and all contents up to and including a
//! block by the bytes of the file up to its end, so that a small file cannot ask for much memory.

use super::bytes::crc64;
use super::damage::Damage;
use std::io::{self, Read, Write};

/// The first eight bytes of every trace.
pub const MAGIC: [u8; 8] = *b"ILTRACE\n";
/// The version that this program writes. It reads this one and every one before it, from 1 on.
pub const VERSION: u32 = 2;
const PREFIX_BYTES: u64 = 12;
const FRAME_BYTES: u64 = 17;
const LEVEL: i32 = 9;
/// Content of a trace, before compression, that its size does not have to account for, bytes.
const CONTENT_FREE_BYTES: u64 = 1 << 20;
/// The most bytes of content for each byte of the file beyond that. A recorder's events come to less than 10,
/// its maps to less than 30.
const CONTENT_PER_STORED: u64 = 64;

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// The header, as JSON.
    Header = 1,
    /// The map of a process, as JSON; events refer to it by its number among the images.
    Image = 2,
    /// Events.
    Events = 3,
    /// The footer, as JSON.
    Footer = 4,
}

impl BlockKind {
    fn from_byte(byte: u8) -> Option<BlockKind> {
        [BlockKind::Header, BlockKind::Image, BlockKind::Events, BlockKind::Footer]
            .into_iter()
            .find(|&kind| kind as u8 == byte)
    }

    /// The most bytes that its content may have before compression.
    pub fn most_bytes(self) -> usize {
        match self {
            BlockKind::Events => 1 << 20,
            BlockKind::Header | BlockKind::Image | BlockKind::Footer => 32 << 20,
        }
    }
}

/// Writes blocks.
pub struct BlockWriter<W: Write> {
    out: W,
    number: u64,
    written_bytes: u64,
    content_bytes: u64,
}

impl<W: Write> BlockWriter<W> {
    /// Writes magic and version to `out`.
    pub fn new(mut out: W) -> io::Result<BlockWriter<W>> {
        out.write_all(&MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        Ok(BlockWriter { out, number: 0, written_bytes: PREFIX_BYTES, content_bytes: 0 })
    }

    /// Writes one block.
    ///
    /// # Errors
    /// The content is longer than a reader takes, or so repetitive that a reader would refuse it.
    pub fn write(&mut self, kind: BlockKind, content: &[u8]) -> io::Result<()> {
        if content.len() > kind.most_bytes() {
            return Err(io::Error::other(format!(
                "{} bytes are too many for a {kind:?} block",
                content.len()
            )));
        }
        self.write_unbounded(kind, content)?;
        if self.content_bytes > most_content(self.written_bytes) {
            return Err(io::Error::other("the trace is so repetitive that no reader would take it"));
        }
        Ok(())
    }

    /// As [`write`](Self::write), without a look at what readers take: for tests of readers.
    ///
    /// # Errors
    /// What the output says.
    pub fn write_unbounded(&mut self, kind: BlockKind, content: &[u8]) -> io::Result<()> {
        let stored = zstd::bulk::compress(content, LEVEL)?;
        let mut frame = [0; 9];
        frame[0] = kind as u8;
        frame[1..5].copy_from_slice(&(content.len() as u32).to_le_bytes());
        frame[5..9].copy_from_slice(&(stored.len() as u32).to_le_bytes());
        let crc = crc64(&[&self.number.to_le_bytes(), &frame, &stored]);
        self.out.write_all(&frame)?;
        self.out.write_all(&crc.to_le_bytes())?;
        self.out.write_all(&stored)?;
        self.number += 1;
        self.written_bytes += FRAME_BYTES + stored.len() as u64;
        self.content_bytes += content.len() as u64;
        Ok(())
    }

    /// Bytes written so far, the prefix included.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Flushes and gives the output back.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

/// A block as read and verified.
#[derive(Clone, Debug)]
pub struct Block {
    /// What it holds.
    pub kind: BlockKind,
    /// Where it starts in the file.
    pub offset: u64,
    /// Its content.
    pub content: Vec<u8>,
}

/// Reads and verifies blocks.
pub struct BlockReader<R: Read> {
    input: R,
    version: u32,
    number: u64,
    offset: u64,
    /// Content of the blocks read so far, before compression.
    content_bytes: u64,
}

impl<R: Read> BlockReader<R> {
    /// Reads magic and version from `input`.
    pub fn new(mut input: R) -> Result<BlockReader<R>, Damage> {
        let mut magic = [0; 8];
        let mut version = [0; 4];
        input.read_exact(&mut magic).map_err(|e| Damage::reading(0, "the magic number", &e))?;
        if magic != MAGIC {
            return Err(Damage::at(0, "this is not a trace: the magic number is wrong"));
        }
        input.read_exact(&mut version).map_err(|e| Damage::reading(8, "the version", &e))?;
        match u32::from_le_bytes(version) {
            version @ 1..=VERSION => {
                Ok(BlockReader { input, version, number: 0, offset: PREFIX_BYTES, content_bytes: 0 })
            }
            0 => Err(Damage::at(8, "there is no format version 0")),
            newer => Err(Damage::at(8, newer_text(newer))),
        }
    }

    /// The version of the format.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The next block. The end of the file is damage: only the footer ends a trace.
    pub fn read_block(&mut self) -> Result<Block, Damage> {
        let offset = self.offset;
        let mut frame = [0; 9];
        let mut crc = [0; 8];
        self.read(offset, &mut frame, "a block's frame, before the footer")?;
        self.read(offset, &mut crc, "a block's checksum")?;
        let (kind, raw_len, stored_len) = decode_frame(&frame).map_err(|what| Damage::at(offset, what))?;
        self.content_bytes += raw_len as u64;
        if self.content_bytes > most_content(self.offset + stored_len as u64) {
            let what = format!("{raw_len} bytes of {stored_len} stored are more than any recording comes to");
            return Err(Damage::at(offset, what));
        }
        let mut stored = vec![0; stored_len];
        self.read(offset, &mut stored, "a block's content")?;
        if crc64(&[&self.number.to_le_bytes(), &frame, &stored]) != u64::from_le_bytes(crc) {
            return Err(Damage::at(offset, "a block's checksum does not match its content"));
        }
        let content = zstd::bulk::decompress(&stored, raw_len)
            .map_err(|e| Damage::at(offset, format!("a block does not decompress: {e}")))?;
        if content.len() != raw_len {
            return Err(Damage::at(offset, format!("a block of {raw_len} bytes gave {}", content.len())));
        }
        self.number += 1;
        Ok(Block { kind, offset, content })
    }

    /// Checks that nothing follows.
    pub fn expect_end(&mut self) -> Result<(), Damage> {
        match self.input.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(Damage::at(self.offset, "there is something after the footer")),
            Err(e) => Err(Damage::reading(self.offset, "the end", &e)),
        }
    }

    /// Reads a piece of the block that starts at `block`, the offset that an error reports.
    fn read(&mut self, block: u64, into: &mut [u8], what: &str) -> Result<(), Damage> {
        self.input.read_exact(into).map_err(|e| Damage::reading(block, what, &e))?;
        self.offset += into.len() as u64;
        Ok(())
    }
}

/// What is said of a trace of a later version.
fn newer_text(version: u32) -> String {
    format!(
        "the trace has format version {version}, and this program reads versions up to {VERSION}: read it \
         with the interleaf that recorded it, or a later one"
    )
}

/// The most content that the first `file_bytes` of a file may have.
fn most_content(file_bytes: u64) -> u64 {
    file_bytes.saturating_mul(CONTENT_PER_STORED).saturating_add(CONTENT_FREE_BYTES)
}

fn decode_frame(frame: &[u8; 9]) -> Result<(BlockKind, usize, usize), String> {
    let word =
        |at: usize| u32::from_le_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]) as usize;
    let kind = BlockKind::from_byte(frame[0]).ok_or_else(|| format!("block kind {} is unknown", frame[0]))?;
    let (raw_len, stored_len) = (word(1), word(5));
    let most = kind.most_bytes();
    if raw_len > most || stored_len > zstd::zstd_safe::compress_bound(most) {
        return Err(format!("a {kind:?} block of {raw_len} bytes, {stored_len} stored, is too large"));
    }
    Ok((kind, raw_len, stored_len))
}
