//! A file that is written under another name, and takes its own only when it is whole.
//!
//! ```text
//!   create("t")   t.partial: new, never a file that was there, never through a symbolic link
//!   commit        renamed to t, which must not exist or be a regular file
//!   any other end t.partial is removed: on drop, and by a handler of the signals that end a process
//! ```
//!
//! SIGKILL leaves `t.partial` behind; the next [`PendingFile::create`] names it and asks for its removal.

use std::ffi::{CString, c_char, c_int};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering::SeqCst};

/// Signals whose default ends the process and that a terminal or a service manager sends.
const ENDS: [c_int; 3] = [libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Name of the file to remove when a signal ends the process; never freed while it is published.
static PUBLISHED: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());
/// The process that published it; a child of a fork removes nothing.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// An unfinished file.
#[derive(Debug)]
pub struct PendingFile {
    path: PathBuf,
    partial: PathBuf,
    is_renamed: bool,
}

impl PendingFile {
    /// Creates `path` with `.partial` appended, and returns it for writing.
    ///
    /// # Errors
    /// `path` names something that is no regular file; `path.partial` exists; or what the host says.
    pub fn create(path: &Path) -> io::Result<(PendingFile, File)> {
        check_replaceable(path)?;
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&partial)
            .map_err(|error| said_of(&partial, error))?;
        publish(&partial);
        Ok((PendingFile { path: path.to_path_buf(), partial, is_renamed: false }, file))
    }

    /// Gives the file its name, replacing a regular file of that name.
    ///
    /// # Errors
    /// The name belongs to something else by now, or what the host says; the file is removed then.
    pub fn commit(mut self) -> io::Result<()> {
        check_replaceable(&self.path)?;
        fs::rename(&self.partial, &self.path)?;
        self.is_renamed = true;
        Ok(())
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        unpublish();
        if !self.is_renamed {
            // An unfinished file that cannot be removed is no reason to fail differently.
            let _ = fs::remove_file(&self.partial);
        }
    }
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

/// Has `file` removed when a signal ends this process. A later call replaces an earlier one.
fn publish(file: &Path) {
    let Ok(name) = CString::new(file.as_os_str().as_bytes()) else { return };
    // SAFETY: `getpid` takes no memory.
    OWNER.store(unsafe { libc::getpid() }, SeqCst);
    // The earlier name is leaked: a handler on another thread may be reading it.
    PUBLISHED.store(name.into_raw(), SeqCst);
    ENDS.into_iter().for_each(install);
}

fn unpublish() {
    PUBLISHED.store(ptr::null_mut(), SeqCst);
}

/// Installs the handler, unless the signal is ignored (`nohup`).
fn install(signal: c_int) {
    // SAFETY: `signal` sets a disposition; the handler calls async-signal-safe functions only.
    unsafe {
        let before = libc::signal(signal, remove_and_end as *const () as libc::sighandler_t);
        if before == libc::SIG_IGN {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
}

/// Removes the published file, then ends the process as the signal does without a handler.
extern "C" fn remove_and_end(signal: c_int) {
    // SAFETY: `getpid`, `unlink`, `signal` and `raise` are async-signal-safe. A published name is a
    // terminated string that is never freed: `publish` leaks it.
    unsafe {
        let name = PUBLISHED.load(SeqCst);
        if !name.is_null() && OWNER.load(SeqCst) == libc::getpid() {
            libc::unlink(name);
        }
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

#[cfg(test)]
#[path = "tests/pending_file.rs"]
mod tests;
