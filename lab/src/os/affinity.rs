//! Which host CPUs a thread runs on.

use std::io;
use std::mem::{size_of, zeroed};

/// The host CPUs that the calling thread may run on, in rising order.
pub fn allowed() -> io::Result<Vec<usize>> {
    let set = get()?;
    Ok((0..libc::CPU_SETSIZE as usize).filter(|&cpu| contains(&set, cpu)).collect())
}

/// Keeps the calling thread on host CPU `cpu` until the guard is dropped; then it may run where it did
/// before.
pub fn pin(cpu: usize) -> io::Result<AffinityGuard> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::other(format!("no CPU has the number {cpu}")));
    }
    let before = get()?;
    // SAFETY: a cpu_set_t is an array of plain integers, for which all zeroes is a value.
    let mut set: libc::cpu_set_t = unsafe { zeroed() };
    // SAFETY: `cpu` is below CPU_SETSIZE, so the bit it names is inside of the set.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    put(&set)?;
    Ok(AffinityGuard { before })
}

/// A thread kept on one host CPU.
#[must_use = "the thread is unpinned when this is dropped"]
pub struct AffinityGuard {
    before: libc::cpu_set_t,
}

impl Drop for AffinityGuard {
    fn drop(&mut self) {
        // A set that was allowed before can only be refused if the machine lost those CPUs; then there is
        // nothing to go back to.
        let _ = put(&self.before);
    }
}

fn contains(set: &libc::cpu_set_t, cpu: usize) -> bool {
    // SAFETY: evaluated only below CPU_SETSIZE, so the bit is inside of the set.
    cpu < libc::CPU_SETSIZE as usize && unsafe { libc::CPU_ISSET(cpu, set) }
}

fn get() -> io::Result<libc::cpu_set_t> {
    // SAFETY: a cpu_set_t is an array of plain integers, for which all zeroes is a value.
    let mut set: libc::cpu_set_t = unsafe { zeroed() };
    // SAFETY: thread 0 is the calling one, and the kernel writes at most the given size into `set`.
    let answer = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) };
    if answer == 0 { Ok(set) } else { Err(io::Error::last_os_error()) }
}

fn put(set: &libc::cpu_set_t) -> io::Result<()> {
    // SAFETY: thread 0 is the calling one, and the kernel reads exactly the given size from `set`.
    let answer = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
#[path = "tests/affinity.rs"]
mod tests;
