//! What a task does to its address space when it gives up its CPU and when it has one again, known to its
//! thread for as long as a call runs.

use std::cell::Cell;
use std::mem::transmute;

/// What a task does to its address space when it gives up its CPU and when it has one again.
pub trait Switch {
    /// The task is about to give up the CPU that it runs on.
    fn leaves(&self);
    /// The task runs on a CPU again.
    fn enters(&self);
}

thread_local!(static SWITCH: Cell<Option<&'static dyn Switch>> = const { Cell::new(None) });

/// Puts back what was installed before, however the call ends.
struct Restore(Option<&'static dyn Switch>);

impl Drop for Restore {
    fn drop(&mut self) {
        SWITCH.set(self.0);
    }
}

/// Runs `f`; whenever this thread gives up its CPU meanwhile, `switch` hears of it.
pub fn with_switch<R>(switch: &dyn Switch, f: impl FnOnce() -> R) -> R {
    // SAFETY: only the lifetime changes. The reference stays in this module's thread-local, from where
    // `installed` alone lends it, to this thread, for the length of a call that runs inside of `f`; and it is
    // taken out before this call returns or unwinds, thus while the borrow that we were given still lasts.
    let lasting = unsafe { transmute::<&dyn Switch, &'static dyn Switch>(switch) };
    let _restore = Restore(SWITCH.replace(Some(lasting)));
    f()
}

/// Lends what is installed on this thread. `f` cannot keep it: it must take a reference of any lifetime.
pub(crate) fn installed<R>(f: impl for<'a> FnOnce(Option<&'a dyn Switch>) -> R) -> R {
    f(SWITCH.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Count<'a>(&'a Cell<u32>);

    impl Switch for Count<'_> {
        fn leaves(&self) {
            self.0.set(self.0.get() + 1);
        }
        fn enters(&self) {}
    }

    fn leave() {
        installed(|switch| switch.into_iter().for_each(Switch::leaves));
    }

    #[test]
    fn the_innermost_switch_hears_and_the_outer_one_again_afterwards() {
        let (outer, inner) = (Cell::new(0), Cell::new(0));
        leave();
        with_switch(&Count(&outer), || {
            with_switch(&Count(&inner), leave);
            leave();
            leave();
        });
        leave();
        assert_eq!((outer.get(), inner.get()), (2, 1));
    }

    #[test]
    fn a_panic_takes_the_switch_away() {
        let count = Cell::new(0);
        let panics = || with_switch(&Count(&count), || panic!("on purpose"));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        leave();
        assert_eq!(count.get(), 0);
    }
}
