//! The terminal that stdout is, if it is one.

use std::io::{IsTerminal, stdout};
use std::os::fd::AsRawFd;

/// Columns of the terminal on stdout; `None` where stdout is none, or does not say.
pub fn columns() -> Option<usize> {
    if !stdout().is_terminal() {
        return None;
    }
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the request writes one structure of this type, which is ours.
    let done = unsafe { libc::ioctl(stdout().as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    (done == 0 && size.ws_col > 0).then_some(size.ws_col.into())
}
