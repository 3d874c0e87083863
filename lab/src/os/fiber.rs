//! Fibers: several stacks on one host thread, switched by hand.
//!
//! A switch saves six registers and loads six: a few nanoseconds, where handing over between host threads
//! takes microseconds. That is what lets a seeded machine choose another CPU at every access to shared
//! memory.
//!
//! A [`Ring`] is a number of stacks; slot 0 is the host thread's own. Exactly one slot runs. A fiber whose
//! turn never comes again is leaked, stack and all: what it borrows must then never end, which
//! [`Ring::scope`] sees to by not returning either.

use super::memory::Reservation;
use std::arch::naked_asm;
use std::cell::{Cell, RefCell};
use std::io;
use std::process::abort;
use std::ptr::null_mut;
use std::rc::Rc;

/// Bytes of a fiber's stack; the host brings them in as they are touched.
const STACK_BYTES: usize = 512 << 10;
/// Bytes below a stack that stop what runs over its end.
const GUARD_BYTES: usize = 4096;

/// One slot's way back.
struct Slot {
    /// Where the registers of the suspended slot lie on its stack; null while it runs and after it is done.
    saved: Cell<*mut u8>,
    entry: RefCell<Option<Box<dyn FnOnce()>>>,
    stack: Option<Reservation>,
    /// Who runs when this fiber is done.
    parent: usize,
}

/// Stacks of one host thread, one of which runs.
pub struct Ring {
    slots: RefCell<Vec<Rc<Slot>>>,
    running: Cell<usize>,
}

impl Ring {
    /// A ring with the running thread in slot 0.
    pub fn new() -> Rc<Self> {
        let host = Slot { saved: Cell::new(null_mut()), entry: RefCell::new(None), stack: None, parent: 0 };
        Rc::new(Self { slots: RefCell::new(vec![Rc::new(host)]), running: Cell::new(0) })
    }

    /// The slot that runs.
    pub fn running(&self) -> usize {
        self.running.get()
    }

    /// Adds a fiber that will run `entry` when it is first switched to, and says its slot. When it is done,
    /// the slot that runs now goes on.
    ///
    /// # Errors
    /// What the host says: no memory.
    pub fn spawn(self: &Rc<Self>, entry: Box<dyn FnOnce()>) -> io::Result<usize> {
        let stack = spare_stack()?;
        let saved = first_frame(&stack, Rc::as_ptr(self));
        let slot = Slot {
            saved: Cell::new(saved),
            entry: RefCell::new(Some(entry)),
            stack: Some(stack),
            parent: self.running(),
        };
        let mut slots = self.slots.borrow_mut();
        slots.push(Rc::new(slot));
        Ok(slots.len() - 1)
    }

    /// Runs `drive` with fibers for `entries`, given their slots. Returns only once all of them are done; a
    /// fiber that is not done when `drive` returns ends the process.
    ///
    /// # Errors
    /// What the host says: no memory.
    pub fn scope<'a>(
        self: &Rc<Self>,
        entries: Vec<Box<dyn FnOnce() + 'a>>,
        drive: impl FnOnce(&[usize]),
    ) -> io::Result<()> {
        /// Ends the process unless it is told that all is well.
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                eprintln!("a fiber is left with borrows that end here");
                abort();
            }
        }
        let bomb = Bomb;
        let mut fibers = Vec::new();
        for entry in entries {
            // SAFETY: only the lifetime changes. The entry runs on a fiber that is done when this function
            // returns, else the bomb ends the process; where this function never returns, what the entry
            // borrows lives for ever.
            let entry = unsafe { std::mem::transmute::<Box<dyn FnOnce() + 'a>, Box<dyn FnOnce()>>(entry) };
            fibers.push(self.spawn(entry).expect("a stack for a fiber"));
        }
        drive(&fibers);
        if fibers.iter().all(|&slot| self.is_done(slot)) {
            std::mem::forget(bomb);
        }
        Ok(())
    }

    /// Whether the fiber has run to its end.
    pub fn is_done(&self, slot: usize) -> bool {
        let slots = self.slots.borrow();
        slots[slot].saved.get().is_null() && self.running() != slot
    }

    /// Suspends the running slot and goes on with another, until somebody switches back.
    ///
    /// # Panics
    /// Where the other slot is done.
    pub fn switch_to(&self, to: usize) {
        let from = self.running();
        if to == from {
            return;
        }
        // References to both slots, so that the list is not borrowed while another slot runs.
        let (here, there) = {
            let slots = self.slots.borrow();
            (slots[from].clone(), slots[to].clone())
        };
        let load = there.saved.replace(null_mut());
        assert!(!load.is_null(), "a fiber that is done cannot go on");
        self.running.set(to);
        let save = here.saved.as_ptr();
        drop(there);
        // SAFETY: `load` is what a suspended slot of this thread's ring saved, or its first frame, and is
        // used once: it was replaced by null. `save` outlives the switch, as `here` stays on this stack.
        unsafe { swap(save, load) };
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        for slot in self.slots.get_mut().drain(..) {
            let done = slot.saved.get().is_null();
            match Rc::try_unwrap(slot) {
                Ok(Slot { stack: Some(stack), .. }) if done => keep_stack(stack),
                Ok(slot) => std::mem::forget(slot),
                Err(_) => (),
            }
        }
    }
}

/// Lays down what [`swap`] loads when a fiber is first switched to: zeroed registers but two, and where to go
/// on.
fn first_frame(stack: &Reservation, ring: *const Ring) -> *mut u8 {
    let words: [usize; 7] =
        [0, 0, ring.expose_provenance(), begin as *const () as usize, 0, 0, start as *const () as usize];
    // SAFETY: the top of the stack lies within the reservation, is aligned to 16, and nobody else uses it.
    unsafe {
        let top = stack.start().as_ptr().add(stack.len_bytes());
        let frame = top.sub(size_of_val(&words));
        frame.cast::<[usize; 7]>().write(words);
        frame
    }
}

/// Saves the registers that a call preserves on this stack, and its top in `*save`; then goes on where `load`
/// was saved.
#[unsafe(naked)]
unsafe extern "sysv64" fn swap(save: *mut *mut u8, load: *mut u8) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rdi], rsp",
        "mov rsp, rsi",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// Where a fiber starts: the ring is in r13, the function in r12.
#[unsafe(naked)]
unsafe extern "sysv64" fn start() {
    naked_asm!("mov rdi, r13", "call r12", "ud2")
}

/// Runs the entry of the slot that runs now, then its parent, for ever.
unsafe extern "sysv64" fn begin(ring: *const Ring) {
    // SAFETY: the ring is borrowed by `switch_to` on the stack that switched here, which goes on only after
    // this.
    let ring = unsafe { &*ring };
    let slot = ring.slots.borrow()[ring.running()].clone();
    let parent = slot.parent;
    if let Some(entry) = slot.entry.take() {
        entry();
    }
    drop(slot);
    ring.running.set(parent);
    let load = ring.slots.borrow()[parent].saved.replace(null_mut());
    if load.is_null() {
        eprintln!("a fiber ended and its parent has ended before");
        abort();
    }
    let mut nowhere = null_mut();
    // SAFETY: the parent is suspended, as in `switch_to`; this stack is never returned to, and nothing is
    // left on it.
    unsafe { swap(&raw mut nowhere, load) };
}

thread_local!(static SPARE: RefCell<Vec<Reservation>> = const { RefCell::new(Vec::new()) });

fn spare_stack() -> io::Result<Reservation> {
    if let Some(stack) = SPARE.with_borrow_mut(Vec::pop) {
        return Ok(stack);
    }
    let stack = Reservation::new(GUARD_BYTES + STACK_BYTES)?;
    stack.open(GUARD_BYTES..GUARD_BYTES + STACK_BYTES)?;
    Ok(stack)
}

fn keep_stack(stack: Reservation) {
    SPARE.with_borrow_mut(|spare| spare.push(stack));
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
