//! What was counted adds up.

use super::system::{QuiescentSystem, require};
use super::walk::Walked;
use interleaf::machine::Format;
use interleaf::space::{Counter, Fallback, Path};
use interleaf_lab::machine::soft::Flavour;

/// Where all spaces try without their lock, every fault is counted as done so or under one reason to fall
/// back; where none does, under neither. None is counted as done on a path that no space takes. Errors are
/// found under the lock alone. Garbage keeps its bound.
pub(super) fn check<C: Flavour, F: Format>(
    system: &QuiescentSystem<'_, '_, C, F>,
    _: &Walked,
) -> Result<(), String> {
    let totals = system.vm.totals();
    let (faults, errors) = (totals.get(Counter::PgFault), totals.get(Counter::PgFaultError));
    let fallbacks: u64 = Fallback::ALL.iter().map(|reason| totals.get(reason.counter())).sum();
    let speculated = totals.get(Counter::SpeculativePgFault);
    let vma_locked = totals.get(Counter::VmaLockSuccess);
    let (due, may_fail, others) = match system.path {
        Path::Speculative => (faults, fallbacks, vma_locked),
        Path::VmaLock => (faults, fallbacks, speculated),
        Path::Locked => (0, faults, 0),
    };
    let says = || {
        format!(
            "{faults} faults: {speculated} speculated, {vma_locked} with a mapping locked, {fallbacks} fell \
             back, {errors} errors"
        )
    };
    require(speculated + vma_locked + fallbacks == due && errors <= may_fail && others == 0, says)?;
    let most = system.vm.garbage_limits().most_bytes() as u64 / SMALLEST_BYTES + SLACK;
    let bound = u64::from(system.machine.bus().nr_cpus()) * most;
    let garbage = system.vm.garbage();
    require(garbage <= bound, || format!("{garbage} objects wait for readers, at most {bound} may"))
}

/// What one operation may leave beyond the bound before it looks: the records of a replacement are deferred
/// together.
const SLACK: u64 = 64;

/// Bytes of the smallest object that is retired, a mapping's record.
const SMALLEST_BYTES: u64 = 64;
