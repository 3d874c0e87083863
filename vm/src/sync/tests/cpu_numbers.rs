use super::*;
use crate::machine::testing::TestCpu;
use crate::sync::testing::Heap;
use std::collections::BTreeSet;

#[test]
fn no_number_is_given_twice_whichever_cpus_ask() {
    for nr_cpus in [1, 3, 64] {
        let numbers = CpuNumbers::<TestCpu>::carve(&mut Heap, nr_cpus).unwrap();
        let mut seen = BTreeSet::from([0]);
        for n in 0..1000 {
            TestCpu::become_cpu(n * n % nr_cpus);
            assert!(seen.insert(numbers.next()), "given twice, or 0");
        }
        TestCpu::become_cpu(0);
        assert!(*seen.last().unwrap() <= 1000 * u64::from(nr_cpus));
    }
}
