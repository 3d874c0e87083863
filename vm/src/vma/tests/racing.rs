//! A writer that replaces mappings by decisions while others look them up and give them identities.

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

/// Pages of the space, all mapped throughout.
const PAGES: u64 = 24;
const READERS: u32 = 2;

fn all() -> VpnRange {
    pages(0, PAGES)
}

/// What a writer decides on, kept from getting an identity meanwhile.
fn frozen(tree: &VmaTree<TestCpu>, section: &ReadGuard<'_, TestCpu>, vpn: Vpn) -> Option<VmaAttributes> {
    let vma = tree.find(section, vpn)?;
    vma.freeze();
    Some(vma.attributes())
}

/// mprotect of a range within one mapping, as an address space does it, without entries.
fn write(
    tree: &VmaTree<TestCpu>,
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
            let ended = record.mark_stale();
            assert!(
                decided
                    .iter()
                    .any(|attributes| attributes.range == record.range() && attributes.anon == ended)
            );
        }
        prepared.publish();
    }
    tree.iter(&rcu.read(), all()).for_each(Vma::thaw);
}

/// Looks a page up, and gives its mapping an identity now and then; what it got is written down.
fn read(
    tree: &VmaTree<TestCpu>,
    rcu: &Rcu<TestCpu>,
    page: u64,
    fresh: Option<AnonId>,
    known: &[AtomicU64<TestCpu>],
) {
    let section = rcu.read();
    let vma =
        tree.find(&section, pages(page, page).start).expect("what is mapped throughout is always found");
    assert!(vma.contains(pages(page, page).start));
    if let Some(anon) = fresh.and_then(|anon| vma.give_anon(anon)) {
        let before = known[page as usize].swap(anon.bits(), AcqRel);
        assert!(before == 0 || before == anon.bits(), "an identity is for life");
    }
}

#[test]
fn no_identity_is_lost_while_mappings_are_split_and_joined() {
    for seed in 0..40u64 {
        let machine = TestMachine::with_cpus(512, READERS + 1);
        let (memory, rcu) = (memory(&machine), Rcu::carve(&mut Heap, READERS + 1).unwrap());
        let (pools, tree) = (Pools::new(&memory).unwrap(), VmaTree::new());
        let store = pools.allocator(&memory, &rcu);
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
            let _ends = Ends(&done);
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

/// Ends the readers, also where the writer fails.
struct Ends<'a>(&'a AtomicU32<TestCpu>);

impl Drop for Ends<'_> {
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
