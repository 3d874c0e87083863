//! What the report says of files.

use super::files::FileTable;
use super::life::{Family, Life};
use super::step::{Act, Step, Steps, Way};
use crate::trace::{Kind, Sys};
use serde::Serialize;
use std::collections::BTreeMap;

/// The files that were mapped, and what was no file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MappedFiles {
    /// Files that were mapped, by calls or at an exec.
    pub files: u64,
    /// Calls that mapped one.
    pub mapped: u64,
    /// By name, calls that mapped what is no file: anonymous memory stands in for it.
    pub stand_ins: BTreeMap<String, u64>,
}

impl MappedFiles {
    /// Those of a trace.
    pub(super) fn of(families: &[Family], files: &FileTable) -> MappedFiles {
        let mut mapped = MappedFiles { files: files.len() as u64, ..MappedFiles::default() };
        for (life, steps) in families.iter().flat_map(Family::each) {
            mapped.add(life, steps);
        }
        mapped
    }

    fn add(&mut self, life: &Life, steps: &Steps) {
        for (event, step) in life.events.iter().zip(&steps.steps) {
            let (Kind::Call(call), Step::Call(number)) = (&event.kind, step) else { continue };
            let done = &steps.calls[*number as usize];
            match done.act {
                Act::MapFile { .. } => self.mapped += 1,
                Act::StandIn(_) if done.way == Way::StandIn => {
                    let name = match call.sys {
                        Sys::Shmat => "System V memory",
                        _ => call.file.as_deref().unwrap_or("without a name"),
                    };
                    *self.stand_ins.entry(name.to_string()).or_default() += 1;
                }
                _ => {}
            }
        }
    }

    /// Rows of a table.
    pub(super) fn rows(&self) -> Vec<(String, String)> {
        let mut rows =
            vec![("files".to_string(), format!("{}, mapped by {} calls", self.files, self.mapped))];
        let stand_in =
            |(name, times): (&String, &u64)| (format!("stand-in for {name}"), format!("{times} calls"));
        rows.extend(self.stand_ins.iter().map(stand_in));
        rows
    }
}
