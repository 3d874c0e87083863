//! A file that has no name until it is whole, where the file system can do that; else another one.
//!
//! ```text
//!                 without a name (O_TMPFILE)                with one
//!   create("t")   in the folder of t                        t.partial: new, through no symbolic link
//!   commit        linked to t; where t is a regular file,   renamed to t, which must not exist or be a
//!                 to t.PID.partial, which is renamed to t   regular file
//!   other end     nothing is left, SIGKILL included         t.partial is removed: on drop, and by a handler
//!                                                           of the signals that end a process
//! ```
//!
//! SIGKILL leaves `t.partial` behind, in the second way; the next [`PendingFile::create`] names it and asks
//! for its removal. In the first way it can leave a whole `t.PID.partial`, between two calls.
//!
//! The file is its owner's to read and write, and no other user's.
//!
//! A file that outgrows RLIMIT_FSIZE is an error of the write, not the end of the process.

use super::end_signals;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process;

/// Rights of the file: a trace can tell what a program computed on.
const OWNER_ALONE: u32 = 0o600;

/// An unfinished file.
#[derive(Debug)]
pub struct PendingFile {
    path: PathBuf,
    place: Place,
}

/// Where its content is meanwhile.
#[derive(Debug)]
enum Place {
    /// In a file without a name.
    Unnamed(File),
    /// In a file of this name, which goes when this does.
    Named(Named),
}

/// A name that is removed on drop, or when a signal ends the process.
#[derive(Debug)]
struct Named {
    name: PathBuf,
    is_renamed: bool,
}

impl Named {
    fn rename(mut self, path: &Path) -> io::Result<()> {
        fs::rename(&self.name, path)?;
        self.is_renamed = true;
        Ok(())
    }
}

impl PendingFile {
    /// Creates a file that will be `path`, and returns it for writing.
    ///
    /// # Errors
    /// `path` names something that is no regular file; `path.partial` exists, where that is needed; or what
    /// the host says.
    pub fn create(path: &Path) -> io::Result<(PendingFile, File)> {
        check_replaceable(path)?;
        end_signals::survive_file_limit();
        match unnamed(path)? {
            Some(file) => {
                let place = Place::Unnamed(file.try_clone()?);
                Ok((PendingFile { path: path.to_path_buf(), place }, file))
            }
            None => PendingFile::create_named(path),
        }
    }

    fn create_named(path: &Path) -> io::Result<(PendingFile, File)> {
        let partial = with_suffix(path, ".partial");
        let open = || {
            let mut options = OpenOptions::new();
            options
                .write(true)
                .create_new(true)
                .mode(OWNER_ALONE)
                .custom_flags(libc::O_NOFOLLOW)
                .open(&partial)
        };
        let file = end_signals::removing(&partial, open).map_err(|error| said_of(&partial, error))?;
        let place = Place::Named(Named { name: partial, is_renamed: false });
        Ok((PendingFile { path: path.to_path_buf(), place }, file))
    }

    /// Gives the file its name, replacing a regular file of that name.
    ///
    /// # Errors
    /// The name belongs to something else by now, or what the host says; the file is removed then.
    pub fn commit(self) -> io::Result<()> {
        check_replaceable(&self.path)?;
        let named = match self.place {
            Place::Named(named) => named,
            Place::Unnamed(file) => match link(&file, &self.path) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    check_replaceable(&self.path)?;
                    let beside = with_suffix(&self.path, &format!(".{}.partial", process::id()));
                    end_signals::removing(&beside, || link(&file, &beside))
                        .map_err(|error| said_of(&beside, error))?;
                    Named { name: beside, is_renamed: false }
                }
                Err(error) => return Err(error),
            },
        };
        named.rename(&self.path)
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        end_signals::forget();
        if !self.is_renamed {
            // An unfinished file that cannot be removed is no reason to fail differently.
            let _ = fs::remove_file(&self.name);
        }
    }
}

/// A file without a name in the folder of `path`; `None` where the file system has no such files, or a file
/// could not be given a name later.
fn unnamed(path: &Path) -> io::Result<Option<File>> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    match OpenOptions::new().write(true).mode(OWNER_ALONE).custom_flags(libc::O_TMPFILE).open(folder) {
        Ok(file) => Ok(fs::metadata(descriptor(&file)).is_ok().then_some(file)),
        Err(error) => match error.raw_os_error() {
            // A kernel, or a file system, that does not know the flag opens a folder for writing.
            Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL) => Ok(None),
            _ => Err(error),
        },
    }
}

/// The name that every open file has.
fn descriptor(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Gives a file without a name its name, which must be new.
fn link(file: &File, path: &Path) -> io::Result<()> {
    let (from, to) = (CString::new(descriptor(file))?, CString::new(path.as_os_str().as_bytes())?);
    let (here, follow) = (libc::AT_FDCWD, libc::AT_SYMLINK_FOLLOW);
    // SAFETY: two terminated strings.
    match unsafe { libc::linkat(here, from.as_ptr(), here, to.as_ptr(), follow) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Refuses a path that names a device, a directory, a pipe, a socket or a symbolic link.
fn check_replaceable(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_file() => Ok(()),
        Ok(_) => Err(io::Error::other("exists and is no regular file; only a regular file is replaced")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn said_of(partial: &Path, error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::AlreadyExists {
        return error;
    }
    io::Error::new(
        error.kind(),
        format!("{} exists: another recording writes it, or one was killed; remove it", partial.display()),
    )
}

#[cfg(test)]
#[path = "tests/pending_file.rs"]
mod tests;
