use super::*;
use crate::os::fiber::Ring;
use std::cell::Cell;

struct Count<'a>(&'a Cell<u32>);

impl SwitchNotifier for Count<'_> {
    fn sched_out(&self) {
        self.0.set(self.0.get() + 1);
    }
    fn sched_in(&self) {}
}

fn leave() {
    installed(|switch| switch.into_iter().for_each(SwitchNotifier::sched_out));
}

#[test]
fn the_innermost_switch_hears_and_the_outer_one_again_afterwards() {
    let (outer, inner) = (Cell::new(0), Cell::new(0));
    leave();
    with_switch_notifier(&Count(&outer), || {
        with_switch_notifier(&Count(&inner), leave);
        leave();
        leave();
    });
    leave();
    assert_eq!((outer.get(), inner.get()), (2, 1));
}

#[test]
fn a_panic_takes_the_switch_away() {
    let count = Cell::new(0);
    let panics = || with_switch_notifier(&Count(&count), || panic!("on purpose"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
    leave();
    assert_eq!(count.get(), 0);
}

#[test]
fn on_fibers_calls_end_in_any_order_and_each_hears_of_its_own() {
    let (ring, first, second) = (Ring::new(), Cell::new(0), Cell::new(0));
    let early = || with_switch_notifier(&Count(&first), || ring.switch_to(0));
    let late = || {
        with_switch_notifier(&Count(&second), || {
            leave();
            ring.switch_to(0);
            leave();
        });
    };
    let entries: Vec<Box<dyn FnOnce() + '_>> = vec![Box::new(early), Box::new(late)];
    ring.scope(entries, |fibers| {
        let [early, late] = fibers else { unreachable!("two fibers") };
        ring.switch_to(*early);
        ring.switch_to(*late);
        leave();
        ring.switch_to(*early);
        assert!(ring.is_done(*early));
        ring.switch_to(*late);
    })
    .unwrap();
    leave();
    assert_eq!((first.get(), second.get()), (0, 2));
}
