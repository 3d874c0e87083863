//! A file that a command writes at its end, beside what it prints.

use crate::error::Failure;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// A file that is opened before the work, so that a name that cannot be written costs no work, and written
/// after it. What it held stays until then.
#[derive(Debug)]
pub struct OutputFile {
    flag: &'static str,
    path: PathBuf,
    file: File,
    /// Made by this, and not written yet: it goes when this does.
    is_new: bool,
}

impl OutputFile {
    /// Opens the file that `flag` names.
    ///
    /// # Errors
    /// One line with the flag, the name, and what the host says.
    pub fn open(flag: &'static str, path: &Path) -> Result<Self, Failure> {
        let of = |options: &mut OpenOptions| options.write(true).open(path);
        let (opened, is_new) = match of(OpenOptions::new().create_new(true)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                (of(&mut OpenOptions::new()), false)
            }
            opened => (opened, true),
        };
        let file = opened.map_err(|error| refused(flag, path, &error))?;
        Ok(Self { flag, path: path.to_path_buf(), file, is_new })
    }

    /// Writes the file.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn write(mut self, text: &str) -> Result<(), Failure> {
        let written = self.replace(text);
        written.map_err(|error| refused(self.flag, &self.path, &error))?;
        self.is_new = false;
        Ok(())
    }

    fn replace(&mut self, text: &str) -> io::Result<()> {
        // A device or a pipe has no length.
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.file.write_all(text.as_bytes())
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if self.is_new {
            // Another command may have removed it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn refused(flag: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::usage(format!("{flag} {}: {error}", path.display()))
}

#[cfg(test)]
#[path = "tests/output_file.rs"]
mod tests;
