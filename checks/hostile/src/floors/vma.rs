//! Mappings: records, decisions and the address search, with attributes that no space would have.

use crate::odd::{self, NUMBERS};
use crate::{call, called};
use interleaf::machine::CacheType;
use interleaf::units::{NodeMask, Order, PageSize, Vpn, VpnRange};
use interleaf::vma::{self, CollapseLimits, HugePolicy, RegionCounts, Requester, ThpDisable, Vma, VmaState};
use interleaf::vma::{
    AnonId, Backing, BackingWord, FlagAdvice, HugetlbBacking, ObjectId, PfnBacking, Policy, PolicyFlags,
    PolicyMode, PolicyRequest, VmaAttributes, VmaFlags,
};
use interleaf::vma::{MthpPolicies, MthpPolicy, OrderSet, SharedHugePolicy, SharedHugeUse};
use interleaf_lab::machine::host::Host;

/// Calls every function of the floor.
pub fn run() {
    identities();
    flags();
    attributes();
    policies();
    huge_pages();
    mthp();
    records();
}

fn identities() {
    for a in NUMBERS {
        call!(AnonId::new, a);
        call!(AnonId::inherited, a);
        for b in NUMBERS {
            let (a, b) = (AnonId::from_bits(a), AnonId::from_bits(b));
            let agree = call!(AnonId::agrees, a, b);
            assert_eq!(agree, call!(AnonId::agrees, b, a), "{a:?} and {b:?}");
            call!(AnonId::or, a, b);
        }
        let id = call!(AnonId::from_bits, a).expect("any bits are an identity");
        call!(AnonId::bits, id);
        call!(AnonId::is_none, id);
        call!(AnonId::is_inherited, id);
    }
}

fn flags() {
    for bits in NUMBERS {
        let flags = VmaFlags::from_bits_retain(bits as u32);
        call!(VmaFlags::rights, flags);
        call!(VmaFlags::commits_memory, flags);
        call!(VmaFlags::new_anonymous, flags);
        call!(VmaFlags::new_shared, flags);
        call!(VmaFlags::new_private, flags);
        call!(VmaFlags::new_hugetlb, flags);
        for access in NUMBERS {
            call!(VmaFlags::with_access, flags, VmaFlags::from_bits_retain(access as u32));
        }
        for advice in [FlagAdvice::Normal, FlagAdvice::WipeOnFork, FlagAdvice::NoHugePage] {
            call!(VmaFlags::advised, flags, advice);
        }
    }
    call!(VmaFlags::heap);
}

/// Attributes of inverted ranges, unknown flags and forged backings.
pub fn odd_attributes() -> impl Iterator<Item = VmaAttributes> + Clone {
    let ranges = odd::vpns()
        .step_by(3)
        .flat_map(|start| odd::vpns().step_by(5).map(move |end| VpnRange { start, end }));
    ranges.enumerate().map(|(nth, range)| VmaAttributes {
        range,
        flags: VmaFlags::from_bits_retain(NUMBERS[nth % NUMBERS.len()] as u32),
        backing: odd_backings().nth(nth % 19).unwrap_or_default().into(),
        offset: NUMBERS[nth % 7],
        anon: AnonId::from_bits(NUMBERS[nth % 11]),
        policy: odd_policy(nth as u64),
    })
}

/// Every kind of backing, with the smallest and largest values of each field.
fn odd_backings() -> impl Iterator<Item = Backing> + Clone {
    let objects = [1, (1 << ObjectId::BITS) - 1].into_iter().filter_map(ObjectId::new);
    let sizes = [PageSize::Base, PageSize::Huge, PageSize::Giant];
    let caches = [CacheType::WriteBack, CacheType::WriteCombining, CacheType::Device];
    let pfn = move |largest| caches.map(|cache| Backing::Pfn(PfnBacking { cache, largest }));
    let hugetlb = |size| {
        [None, ObjectId::new(1), ObjectId::new((1 << ObjectId::BITS) - 1)].into_iter().flat_map(
            move |object| {
                [false, true].map(|reserves| Backing::Hugetlb(HugetlbBacking { size, reserves, object }))
            },
        )
    };
    let objects = objects.map(Backing::Object);
    let others = sizes.into_iter().flat_map(pfn).chain(sizes.into_iter().flat_map(hugetlb));
    core::iter::once(Backing::Anonymous).chain(objects).chain(others)
}

/// A policy over nodes that no machine has.
fn odd_policy(nodes: u64) -> Policy {
    PolicyRequest::of(PolicyMode::Interleave, nodes).resolve(NodeMask::ALL).unwrap_or_default()
}

fn attributes() {
    for number in NUMBERS {
        let object = call!(ObjectId::new, number).expect("an answer");
        let number = object.map(|object| call!(ObjectId::number, object).expect("a number").get());
        assert!(number.is_none_or(|number| number < 1 << ObjectId::BITS));
    }
    for one in odd_attributes() {
        call!(VmaAttributes::rights, &one);
        call!(VmaAttributes::is_anonymous, &one);
        call!(VmaAttributes::with_flags, &one, VmaFlags::all());
        for page in [Vpn(0), one.range.start, one.range.end, Vpn(u64::MAX)] {
            call!(VmaAttributes::offset_at, &one, page);
        }
        call!(VmaAttributes::over, &one, VpnRange { start: one.range.end, end: one.range.start });
        call!(VmaAttributes::moved_to, &one, VpnRange { start: Vpn(u64::MAX), end: Vpn(0) });
        call!(VmaAttributes::anonymous, one.range, one.flags);
        for backing in odd_backings() {
            let word = call!(BackingWord::new, backing).expect("a word");
            let one = VmaAttributes { backing: word, ..one };
            assert_eq!(call!(BackingWord::get, word), Some(backing));
            assert_eq!(call!(BackingWord::object, word), Some(backing.object()));
            assert_eq!(call!(BackingWord::hugetlb, word), Some(backing.hugetlb()));
            assert_eq!(call!(BackingWord::is_anonymous, word), Some(backing == Backing::Anonymous));
            call!(BackingWord::is_special, word);
            call!(VmaAttributes::may_be_cut, &one, VpnRange { start: Vpn(u64::MAX), end: Vpn(0) });
            call!(VmaAttributes::private_hugetlb, &one);
            call!(VmaAttributes::hugetlb, &one);
            call!(VmaAttributes::pfn_mapping, &one);
            call!(VmaAttributes::is_private, &one);
            call!(Backing::object, backing);
            call!(Backing::hugetlb, backing);
            call!(Backing::page_size, backing);
            let inherited = call!(Backing::inherited, backing).expect("a value");
            assert!(inherited.hugetlb().is_none_or(|hugetlb| !hugetlb.reserves));
            let record = Vma::<Host>::new(one, VmaState::Busy);
            assert_eq!(record.backing(), word, "a record says what it was made of");
            call!(VmaAttributes::backed, one.range, one.flags, backing, one.offset);
        }
    }
}

fn policies() {
    use PolicyMode::{Bind, Default, Local, Preferred, PreferredMany, WeightedInterleave};
    for mode in [Default, Preferred, Bind, PolicyMode::Interleave, Local, PreferredMany, WeightedInterleave] {
        for nodes in NUMBERS {
            let asked = call!(PolicyRequest::of, mode, nodes).expect("any request can be made");
            for bits in 0..=9 {
                let flags = PolicyFlags::from_bits_retain(if bits == 9 { u32::MAX } else { bits });
                let asked = PolicyRequest { flags, ..asked };
                for populated in odd::node_masks() {
                    let policy = call!(PolicyRequest::resolve, asked, populated).flatten();
                    policy.into_iter().for_each(|policy| policy_of(policy, populated));
                }
            }
        }
    }
}

fn mthp() {
    use MthpPolicy::*;
    call!(MthpPolicies::orders);
    for policy in [Never, Madvise, Always, Inherit] {
        let all = call!(MthpPolicies::all, policy).expect("any policy will do");
        assert_eq!(call!(MthpPolicies::is_never, all), Some(policy == Never));
        for order in [0, 1, 2, 8, 9, 15, 16, 255].map(Order) {
            let is_mthp = call!(MthpPolicies::index, order).expect("an answer").is_some();
            let sizes = call!(MthpPolicies::with, all, order, Always).expect("any order will do");
            let set = call!(MthpPolicies::policy, sizes, order).expect("an answer");
            assert_eq!(set, if is_mthp { Always } else { Never });
            for huge in [HugePolicy::Never, HugePolicy::Madvise, HugePolicy::Always] {
                call!(MthpPolicy::resolve, policy, huge);
                for one in odd_attributes().step_by(53) {
                    for page in odd::vpns() {
                        let thp_disable = ThpDisable::None;
                        let orders = call!(vma::orders_to_try, sizes, huge, thp_disable, &one, page);
                        orders_are_sound(orders.expect("orders"), order, one.range, page);
                    }
                }
            }
        }
    }
}

fn shared_huge_pages(thp_disable: ThpDisable, one: &VmaAttributes) {
    for policy in [SharedHugePolicy::Never, SharedHugePolicy::Advise, SharedHugePolicy::Always] {
        call!(SharedHugePolicy::is_ever, policy);
        for page in odd::vpns() {
            let may = call!(vma::shared_huge_use, policy, thp_disable, one, page).expect("an answer");
            assert!(may == SharedHugeUse::None || one.range.covers(vma::pages_of(Order::HUGE, page)));
        }
    }
}

fn orders_are_sound(orders: OrderSet, order: Order, mapping: VpnRange, page: Vpn) {
    let largest = call!(OrderSet::largest, orders).expect("an answer");
    assert_eq!(call!(OrderSet::is_empty, orders), Some(largest.is_none()));
    assert!(largest.is_none_or(|largest| mapping.covers(vma::pages_of(largest, page))));
    let more = call!(OrderSet::with, orders, order).expect("any order will do");
    called!(OrderSet::iter => assert!(more.iter().all(|order| more.contains(order))));
    let less = call!(OrderSet::without, more, order).expect("any order will do");
    assert_eq!(call!(OrderSet::contains, less, order), Some(false));
}

fn huge_pages() {
    for policy in [HugePolicy::Never, HugePolicy::Madvise, HugePolicy::Always] {
        call!(HugePolicy::is_ever, policy);
        for bits in NUMBERS {
            let thp_disable = call!(ThpDisable::from_bits, bits).expect("any bits are one");
            for one in odd_attributes().step_by(7) {
                for page in odd::vpns() {
                    let order = call!(vma::order_to_try, policy, thp_disable, &one, page).expect("an order");
                    let pages = call!(vma::pages_of, order, page).expect("pages");
                    assert!(order == Order::BASE || one.range.covers(pages));
                    for requester in [Requester::Program, Requester::Scanner] {
                        let may = call!(vma::may_collapse, requester, (policy, thp_disable), &one, page);
                        assert!(may == Some(false) || one.range.covers(vma::pages_of(Order::HUGE, page)));
                    }
                }
                call!(VmaAttributes::may_be_collapsed, &one, thp_disable);
                shared_huge_pages(thp_disable, &one);
            }
        }
    }
    for order in odd::orders() {
        call!(vma::pages_of, order, Vpn(u64::MAX));
    }
    let counts = RegionCounts { present: u32::MAX, none: u32::MAX, ..RegionCounts::default() };
    for limits in [CollapseLimits::NONE, CollapseLimits::LINUX] {
        call!(vma::refuse_counts, &counts, &limits);
    }
}

fn policy_of(policy: Policy, populated: NodeMask) {
    call!(Policy::is_default, policy);
    call!(Policy::mode, policy);
    call!(Policy::flags, policy);
    call!(Policy::nodes, policy);
    for populated in [populated, NodeMask::from_bits(0), NodeMask::ALL] {
        call!(Policy::effective, policy, populated);
        for offset in [0, 1, u64::MAX] {
            call!(Policy::placement, policy, offset, populated);
        }
    }
}

fn records() {
    for one in odd_attributes().step_by(3) {
        for state in [VmaState::Stale, VmaState::Live, VmaState::Busy, VmaState::Frozen] {
            let record: Vma<Host> = call!(Vma::new, one, state).expect("a record");
            call!(Vma::thaw, &record);
            call!(Vma::freeze, &record);
            call!(Vma::make_live, &record);
            call!(Vma::freeze, &record);
            for anon in [AnonId::NONE, AnonId::from_bits(u64::MAX), AnonId::new(7), AnonId::inherited(0)] {
                call!(Vma::give_anon, &record, anon);
            }
            call!(Vma::mark_stale, &record);
            call!(Vma::mark_stale, &record);
            call!(Vma::make_live, &record);
            call!(Vma::thaw, &record);
            call!(Vma::state, &record);
            call!(Vma::is_live, &record);
            call!(Vma::anon, &record);
            let now = call!(Vma::attributes, &record).expect("attributes");
            assert_eq!((now.range, now.flags, now.offset), (one.range, one.flags, one.offset));
            assert_eq!(call!(Vma::range, &record), Some(one.range));
            assert_eq!(call!(Vma::flags, &record), Some(one.flags));
            assert_eq!(call!(Vma::policy, &record), Some(one.policy));
            assert_eq!(call!(Vma::backing, &record), Some(one.backing));
            call!(Vma::rights, &record);
            call!(Vma::is_anonymous, &record);
            call!(Vma::is_private, &record);
            call!(Vma::hugetlb_size, &record);
            for page in [Vpn(0), one.range.start, one.range.end, Vpn(u64::MAX)] {
                call!(Vma::contains, &record, page);
                call!(Vma::frame_offset, &record, page);
            }
            call!(vma::same_for_fault, &one, &now, Vpn(u64::MAX));
        }
    }
}
