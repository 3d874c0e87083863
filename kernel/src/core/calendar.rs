//! The clock that runs while the machine is off: its registers, as a moment.
//!
//! Source: the data sheet of the MC146818, and where firmware puts the century.

/// Its registers, as they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Reading {
    /// Second, minute, hour, day, month, year, century.
    pub fields: [u8; 7],
    /// Status register B: how the others are to be read.
    pub format: u8,
}

/// The fields are binary, not two decimal digits each.
const BINARY: u8 = 1 << 2;
/// Hours go from 0 to 23, not twice from 1 to 12.
const WHOLE_DAY: u8 = 1 << 1;
/// Of an hour from 1 to 12: after noon.
const AFTERNOON: u8 = 1 << 7;

impl Reading {
    /// Seconds since 1970 began, in UTC. `None` where the registers hold no date from then on.
    pub fn unix_seconds(&self) -> Option<u64> {
        let [second, minute, mut hour, day, month, year, century] = self.fields;
        let is_afternoon = hour & AFTERNOON != 0;
        hour &= !AFTERNOON;
        let [second, minute, hour, day, month, year, century] =
            [second, minute, hour, day, month, year, century].map(|field| self.number(field));
        let hour = match self.format & WHOLE_DAY {
            0 => hour? % 12 + if is_afternoon { 12 } else { 0 },
            _ => hour?,
        };
        let (second, minute, day, month) = (second?, minute?, day?, month?);
        // A clock that has no century is of this one.
        let year = year? + 100 * century.filter(|century| (19..=99).contains(century)).unwrap_or(20);
        let is_date = (1970..).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
        if !is_date || hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        Some(((days_before(year, month, day) * 24 + hour) * 60 + minute) * 60 + second)
    }

    fn number(&self, field: u8) -> Option<u64> {
        let digits = [field >> 4, field & 15];
        match self.format & BINARY {
            0 if digits.iter().any(|&digit| digit > 9) => None,
            0 => Some(u64::from(digits[0]) * 10 + u64::from(digits[1])),
            _ => Some(field.into()),
        }
    }
}

/// Days from the beginning of 1970 to that of a day: years are counted from March, so that a leap day is the
/// last of its year.
fn days_before(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    // Those before 1970 by the same count.
    days - 719_468
}

#[cfg(test)]
#[path = "tests/calendar.rs"]
mod tests;
