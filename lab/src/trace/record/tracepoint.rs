//! The kernel's tracepoints: their numbers and where their fields lie, as tracefs describes them.

use super::Refusal;
use crate::os::process;
use std::fs;
use std::io;
use std::path::Path;

const ROOT: &str = "/sys/kernel/tracing/events";

/// One tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracepoint {
    /// Its number: the type that its records carry.
    pub id: u16,
    fields: Vec<(String, Field)>,
}

/// Where a field lies in a record, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// From the start of the record.
    pub offset: usize,
    /// Its size; of an array, all of it.
    pub size: usize,
}

impl Tracepoint {
    /// Reads the description of `name`, such as `exceptions/page_fault_user`.
    pub fn find(name: &str) -> Result<Tracepoint, Refusal> {
        let path = format!("{ROOT}/{name}/format");
        match fs::read_to_string(&path) {
            Ok(text) => parse(&text).ok_or_else(|| Refusal::host(format!("{path} cannot be understood"))),
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Err(Refusal::privilege()),
            Err(e) => Err(Refusal::host(format!("{path}: {e}; this kernel lacks the tracepoint {name}"))),
        }
    }

    /// Where its field `name` lies.
    pub fn field(&self, name: &str) -> Result<Field, Refusal> {
        let found = self.fields.iter().find(|(n, _)| n == name);
        found
            .map(|&(_, f)| f)
            .ok_or_else(|| Refusal::host(format!("tracepoint {} has no field {name}", self.id)))
    }
}

/// Reads the text of a description.
pub fn parse(text: &str) -> Option<Tracepoint> {
    let number =
        |text: &str, key: &str| text.split_once(key)?.1.split([';', '\n']).next()?.trim().parse().ok();
    let mut fields = Vec::new();
    for line in text.lines().filter(|l| l.trim_start().starts_with("field:")) {
        let declaration = line.split(';').next()?;
        let name = declaration.rsplit(' ').next()?.split('[').next()?;
        let field = Field { offset: number(line, "offset:")?, size: number(line, "size:")? };
        fields.push((name.to_string(), field));
    }
    Some(Tracepoint { id: u16::try_from(number(text, "ID:")?).ok()?, fields })
}

/// Ensures that tracefs is mounted; mounts it if this user may. Returns whether it had to.
pub fn ensure_tracefs() -> Result<bool, Refusal> {
    if Path::new(ROOT).try_exists().unwrap_or(true) {
        return Ok(false);
    }
    process::mount_tracefs().map(|()| true).map_err(|e| {
        Refusal::host(format!(
            "tracefs is not mounted ({e}); as root: mount -t tracefs tracefs /sys/kernel/tracing"
        ))
    })
}

#[cfg(test)]
#[path = "tests/tracepoint.rs"]
mod tests;
