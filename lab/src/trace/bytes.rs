//! Numbers as bytes: LEB128 varints, zigzag for signed ones, and a cursor that never reads past its end.

/// Appends `value`, seven bits a byte, low bits first.
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed `value`; near zero is short whichever its sign.
pub fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, zigzag(value));
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Reads what [`put`] wrote. Every read is checked; an error says what was asked for.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// A cursor at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { rest: bytes }
    }

    /// Whether everything has been read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// One byte.
    pub fn byte(&mut self, what: &'static str) -> Result<u8, String> {
        let (&first, rest) = self.rest.split_first().ok_or_else(|| format!("{what} is missing"))?;
        self.rest = rest;
        Ok(first)
    }

    /// An unsigned number.
    pub fn number(&mut self, what: &'static str) -> Result<u64, String> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte(what)?;
            if shift == 63 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(format!("{what} is too long a number"))
    }

    /// A signed number.
    pub fn signed(&mut self, what: &'static str) -> Result<i64, String> {
        self.number(what).map(unzigzag)
    }

    /// A number that must fit 32 bits.
    pub fn small(&mut self, what: &'static str) -> Result<u32, String> {
        u32::try_from(self.number(what)?).map_err(|_| format!("{what} is too large"))
    }

    /// A string: its length in bytes, at most `most`, then UTF-8.
    pub fn text(&mut self, what: &'static str, most: usize) -> Result<&'a str, String> {
        let len = self.number(what)? as usize;
        if len > most || len > self.rest.len() {
            return Err(format!("{what} claims {len} bytes"));
        }
        let (text, rest) = self.rest.split_at(len);
        self.rest = rest;
        std::str::from_utf8(text).map_err(|_| format!("{what} is not UTF-8"))
    }
}

/// Appends a string as [`Cursor::text`] reads it.
pub fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// CRC-64 (ECMA-182, reflected) of several pieces: every burst of up to 64 wrong bits is found.
pub fn crc64(pieces: &[&[u8]]) -> u64 {
    let mut crc = !0;
    for &byte in pieces.iter().copied().flatten() {
        crc = CRC_TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8);
    }
    !crc
}

const CRC_TABLE: [u64; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ if crc & 1 == 1 { 0xc96c_5795_d787_0f42 } else { 0 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

#[cfg(test)]
#[path = "tests/bytes.rs"]
mod tests;
