//! Fibers switch, end and keep their state.

use crate::os::fiber::Ring;
use std::cell::{Cell, RefCell};

#[test]
fn fibers_go_on_where_they_left_off_and_end_at_their_parent() {
    let (ring, log) = (Ring::new(), RefCell::new(Vec::new()));
    let body = |name: char| {
        let (ring, log) = (ring.clone(), &log);
        Box::new(move || {
            for step in 0..3 {
                log.borrow_mut().push((name, step));
                ring.switch_to(0);
            }
        }) as Box<dyn FnOnce()>
    };
    ring.scope(vec![body('a'), body('b')], |fibers| {
        while let Some(&next) = fibers.iter().find(|&&fiber| !ring.is_done(fiber)) {
            fibers.iter().rev().filter(|&&f| !ring.is_done(f)).for_each(|&f| ring.switch_to(f));
            assert_eq!(ring.running(), 0, "{next}");
        }
    })
    .unwrap();
    let expected: Vec<_> = (0..3).flat_map(|step| [('b', step), ('a', step)]).collect();
    assert_eq!(*log.borrow(), expected);
}

#[test]
fn a_panic_is_caught_on_the_stack_it_happened_on() {
    let (ring, caught) = (Ring::new(), Cell::new(false));
    let body = || {
        let result = std::panic::catch_unwind(|| std::panic::resume_unwind(Box::new(5)));
        caught.set(result.is_err());
    };
    ring.scope(vec![Box::new(body)], |fibers| ring.switch_to(fibers[0])).unwrap();
    assert!(caught.get());
}

#[test]
fn floating_point_and_deep_stacks_survive_switches() {
    fn deep(ring: &Ring, depth: u32, x: f64) -> f64 {
        if depth == 0 {
            ring.switch_to(0);
            return x;
        }
        deep(ring, depth - 1, x * 1.5) / 1.5
    }
    let (ring, sum) = (Ring::new(), Cell::new(0.0));
    let body = |x: f64| {
        let (ring, sum) = (ring.clone(), &sum);
        Box::new(move || {
            let back = deep(&ring, 500, x);
            sum.set(sum.get() + back);
        }) as Box<dyn FnOnce()>
    };
    ring.scope(vec![body(1.0), body(2.0)], |fibers| {
        fibers.iter().chain(fibers).for_each(|&fiber| ring.switch_to(fiber));
    })
    .unwrap();
    assert!((sum.get() - 3.0).abs() < 1e-9);
}
