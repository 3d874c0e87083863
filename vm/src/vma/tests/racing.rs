//! A writer that decides and replaces mappings while readers look them up and give them identities.

use super::picture::pages;
use super::tree::{Pools, Store, memory, records};
use crate::machine::testing::{TestCpu, TestMachine};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use crate::sync::testing::Heap;
use crate::sync::{Rcu, ReadGuard};
use crate::units::{Vpn, VpnRange};
use crate::vma::{AnonId, Vma, VmaAttributes, VmaFlags, VmaState, VmaTree, protect};
use std::thread;
use std::vec::Vec;

/// Number of pages in the space, which stay mapped throughout.
const PAGES: u64 = 24;
const READERS: u32 = 2;

fn all() -> VpnRange {
    pages(0, PAGES)
}

/// The attributes of the mapping at `vpn`, frozen so that it gets no identity while the writer decides.
fn frozen(tree: &VmaTree<'_, TestCpu>, section: &ReadGuard<'_, TestCpu>, vpn: Vpn) -> Option<VmaAttributes> {
    let vma = tree.find(section, vpn)?;
    vma.freeze();
    Some(vma.attributes())
}

/// mprotect of a range within one mapping, as in an address space, without entries.
fn write(
    tree: &VmaTree<'_, TestCpu>,
    store: &Store<'_, '_>,
    rcu: &Rcu<TestCpu>,
    part: VpnRange,
    access: VmaFlags,
) {
    let section = rcu.read();
    let vma = frozen(tree, &section, part.start).unwrap();
    let part = part.intersect(vma.range);
    let prev = frozen(tree, &section, Vpn(vma.range.start.0 - 1));
    let next = frozen(tree, &section, vma.range.end);
    let change = protect(prev, &vma, next, part, access).unwrap().change;
    drop(section);
    let puts: Vec<_> = change.puts().map(|attributes| Some((attributes, VmaState::Live))).collect();
    if let (Some((first, _)), Some((last, _))) =
        (puts.first().copied().flatten(), puts.last().copied().flatten())
    {
        let old = VpnRange::new(first.range.start, last.range.end);
        let prepared = tree.prepare(old, records(&puts), store).unwrap();
        let decided: Vec<_> = [prev, Some(vma), next].into_iter().flatten().collect();
        for record in tree.iter(&rcu.read(), old) {
            let last = record.mark_stale();
            assert!(
                decided
                    .iter()
                    .any(|attributes| attributes.range == record.range() && attributes.anon == last)
            );
        }
        prepared.publish();
    }
    tree.iter(&rcu.read(), all()).for_each(Vma::thaw);
}

/// Looks a page up, and gives its mapping the identity `fresh`, if any; `known` records the identity.
fn read(
    tree: &VmaTree<'_, TestCpu>,
    rcu: &Rcu<TestCpu>,
    page: u64,
    fresh: Option<AnonId>,
    known: &[AtomicU64<TestCpu>],
) {
    let section = rcu.read();
    let vma = tree.find(&section, pages(page, page).start).expect("a page that stays mapped is always found");
    assert!(vma.contains(pages(page, page).start));
    if let Some(anon) = fresh.and_then(|anon| vma.give_anon(anon)) {
        let before = known[page as usize].swap(anon.bits(), AcqRel);
        assert!(before == 0 || before == anon.bits(), "an identity never changes");
    }
}

#[test]
fn no_identity_is_lost_while_mappings_are_split_and_joined() {
    for seed in 0..40u64 {
        let machine = TestMachine::with_cpus(512, READERS + 1);
        let (memory, rcu) = (memory(&machine), Rcu::carve(&mut Heap, READERS + 1).unwrap());
        let pools = Pools::new(&memory, &rcu).unwrap();
        let store = pools.allocator(&memory, &rcu);
        let tree = VmaTree::new(&store);
        let access = [VmaFlags::READ, VmaFlags::READ | VmaFlags::WRITE];
        let whole = VmaAttributes::anonymous(all(), VmaFlags::new_anonymous(access[1]));
        tree.prepare(VpnRange::default(), [Vma::new(whole, VmaState::Live)], &store).unwrap().publish();
        let known: Vec<AtomicU64<TestCpu>> = (0..PAGES).map(|_| AtomicU64::new(0)).collect();
        let done = AtomicU32::<TestCpu>::new(0);
        thread::scope(|scope| {
            for reader in 0..READERS {
                let (tree, rcu, known, done) = (&tree, &rcu, &known, &done);
                scope.spawn(move || {
                    TestCpu::become_cpu(reader + 1);
                    let mut dice = Dice(seed * 7 + u64::from(reader));
                    let mut number = u64::from(reader);
                    while done.load(Acquire) == 0 {
                        number += u64::from(READERS);
                        let fresh = (dice.roll(20) == 0).then(|| AnonId::new(number));
                        read(tree, rcu, dice.roll(PAGES), fresh, known);
                    }
                });
            }
            let _stop = StopReaders(&done);
            let mut dice = Dice(seed);
            for _ in 0..300 {
                let from = dice.roll(PAGES);
                let to = from + 1 + dice.roll(PAGES - from);
                write(&tree, &store, &rcu, pages(from, to), access[dice.roll(2) as usize]);
            }
        });
        let section = rcu.read();
        for (page, anon) in known.iter().enumerate() {
            let vma = tree.find(&section, pages(page as u64, 0).start).unwrap();
            let anon = anon.load(Acquire);
            assert!(anon == 0 || anon == vma.anon().bits(), "page {page} lost its identity in seed {seed}");
        }
    }
}

/// Stops the readers when it is dropped, also when the writer panics.
struct StopReaders<'a>(&'a AtomicU32<TestCpu>);

impl Drop for StopReaders<'_> {
    fn drop(&mut self) {
        self.0.store(1, Release);
    }
}

/// splitmix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % below
    }
}
