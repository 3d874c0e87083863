//! Pieces of work that need no other, on all CPUs of the host.

use super::affinity;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Does each piece of work, on as many threads as there are CPUs; returns the results in the order of the
/// work.
///
/// # Errors
/// The first that a thread met with.
pub fn on_all_cpus<T: Send, R: Send, E: Send>(
    work: Vec<T>,
    act: impl Fn(T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let left = Mutex::new(work.into_iter().enumerate());
    let take = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let all = || -> Result<Vec<(usize, R)>, E> {
        let mut done = Vec::new();
        while let Some((at, piece)) = take() {
            done.push((at, act(piece)?));
        }
        Ok(done)
    };
    let threads = affinity::allowed().map_or(1, |cpus| cpus.len().max(1));
    let parts: Result<Vec<_>, _> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(all)).collect();
        workers.into_iter().map(|worker| worker.join().expect("troubles are told, not thrown")).collect()
    });
    let mut done: Vec<_> = parts?.into_iter().flatten().collect();
    done.sort_by_key(|&(at, _)| at);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}
