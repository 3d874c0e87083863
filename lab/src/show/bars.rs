//! Bars: a few named numbers side by side.

use super::table::number;

/// One line per entry, the longest bar `width` characters, an eighth of a character being the smallest step.
pub fn of(entries: &[(String, f64)], unit: &str, width: usize) -> String {
    let longest = entries.iter().map(|e| e.1).fold(0.0, f64::max);
    let name_width = entries.iter().map(|e| e.0.chars().count()).max().unwrap_or(0);
    let line = |(name, value): &(String, f64)| {
        let share = if longest > 0.0 { (value / longest).clamp(0.0, 1.0) } else { 0.0 };
        let bar = bar((share * (width * 8) as f64).round() as usize);
        format!("{name:<name_width$}  {bar:<width$}  {} {unit}\n", number(*value))
    };
    entries.iter().map(line).collect()
}

fn bar(eighths: usize) -> String {
    let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    "█".repeat(eighths / 8) + rest
}

#[cfg(test)]
#[path = "tests/bars.rs"]
mod tests;
