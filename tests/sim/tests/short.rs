//! A short simulation in every test run; `make sim` is the long one.

use tidings_sim::{Counts, Planted, run};

#[test]
fn nothing_is_violated() {
    let mut all = Counts::default();
    for seed in 1..=12 {
        let report = run(seed, 100, None);
        assert!(report.violations.is_empty(), "{}", report.told());
        all.add(&report.counts);
    }
    // It has seen something of everything.
    for (what, count) in [
        ("kills inside a commit", all.in_commit),
        ("losses of power", all.power),
        ("orderly stops", all.stops),
        ("promises", all.promises),
        ("deliveries", all.deliveries),
        ("requests", all.posts),
    ] {
        assert!(count > 0, "no {what}: {all:?}");
    }
    assert!(all.crashes() > 50, "{all:?}");
}

/// A seed is enough to see a failure again.
#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in [3, 1_000_003] {
        let (one, two) = (run(seed, 60, None), run(seed, 60, None));
        let differs = one.trace.iter().zip(&two.trace).position(|(one, two)| one != two);
        let at = differs.unwrap_or(one.trace.len().min(two.trace.len()));
        assert_eq!(one.trace.get(at), two.trace.get(at), "line {at} of seed {seed}");
        assert_eq!(one.counts, two.counts);
    }
}

/// What the simulation says is worth something: it finds a disk that does not keep its word.
#[test]
fn planted_faults_are_found() {
    // The seeds before would only take their time.
    for (planted, first, rules) in [
        (Planted::LosesWhatWasSynced, 1, &["I1", "I4", "I5"][..]),
        (Planted::NoClaimAtBoot, 56, &["I3"]),
        (Planted::ForgetsClaims, 9, &["I3"]),
    ] {
        let mut reports = (first..first + 100).map(|seed| run(seed, 100, Some(planted)));
        let report = reports.find(|report| !report.violations.is_empty());
        let report = report.unwrap_or_else(|| panic!("{planted:?} is not found"));
        println!("{planted:?}: seed {}, {}", report.seed, report.violations[0]);
        assert!(rules.iter().any(|rule| report.violations[0].starts_with(rule)), "{planted:?}: {}", report.told());
    }
}
