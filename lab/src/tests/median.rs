use super::*;

#[test]
fn the_ranks_are_those_of_the_binomial_tables() {
    let known = [(5, 1), (6, 1), (9, 2), (10, 2), (20, 6), (31, 10), (101, 41)];
    for (n, k) in known {
        assert_eq!(rank(n), k, "n = {n}");
    }
}

#[test]
fn the_interval_encloses_the_middle_whatever_the_order_of_the_samples() {
    let mut samples: Vec<f64> = (0..31).map(f64::from).collect();
    samples.reverse();
    samples.swap(3, 20);
    assert_eq!(Median::of(&samples), Median { middle: 15.0, low: 9.0, high: 21.0 });
}

#[test]
fn an_even_number_of_samples_has_the_mean_of_the_middle_two() {
    assert_eq!(Median::of(&[4.0, 1.0, 3.0, 2.0]).middle, 2.5);
}

#[test]
fn one_wild_sample_moves_nothing() {
    let mut samples = vec![1.0; 31];
    samples[7] = 1e9;
    assert_eq!(Median::of(&samples), Median { middle: 1.0, low: 1.0, high: 1.0 });
}

#[test]
fn the_interval_misses_the_true_median_in_about_one_run_in_twenty() {
    let mut state = 1u64;
    let mut draw = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    };
    let misses = (0..2000)
        .filter(|_| {
            let m = Median::of(&(0..31).map(|_| draw()).collect::<Vec<_>>());
            m.low > 0.5 || m.high < 0.5
        })
        .count();
    assert!((20..=100).contains(&misses), "{misses} of 2000");
}
