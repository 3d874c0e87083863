use super::*;

#[test]
fn who_waits_gives_way_under_every_policy() {
    for seed in 0..200 {
        let mut policy = Policy::new(seed, 3);
        for _ in 0..50 {
            assert_ne!(policy.choose(&[0, 1, 2], 1, SwitchHint::Yield), 1, "seed {seed}");
            assert_eq!(policy.choose(&[1], 1, SwitchHint::Yield), 1);
            assert_eq!(policy.choose(&[2], 1, SwitchHint::Stay), 2);
        }
    }
}

#[test]
fn every_cpu_gets_its_turn_among_those_that_wait() {
    for seed in 0..50 {
        let mut policy = Policy::new(seed, 4);
        let (mut seen, mut me) = ([false; 4], 0);
        for _ in 0..200 {
            me = policy.choose(&[0, 1, 2, 3], me, SwitchHint::Yield);
            seen[me] = true;
        }
        assert_eq!(seen, [true; 4], "seed {seed}");
    }
}
