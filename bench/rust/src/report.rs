//! Sides of one case, measured in turns, and how they are told.

use std::fmt::Write as _;

use crate::floor::Floor;
use crate::producers::Run;
use crate::stats::{Short, Spread};

/// One run of one side, and the floor just before it.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// What came out.
    pub run: Run,
    /// Over which floor.
    pub floor: Floor,
}

/// One round of one case: ours and the peer's, one right after the other.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// Our run.
    pub ours: Measured,
    /// The peer's.
    pub peer: Measured,
}

/// What the report's table begins with.
pub const HEAD: &str = "\
| case | | events/s | p50 µs | p99 µs | CPU µs/event | floor µs: extend, rewrite |
|---|---|---|---|---|---|---|
";

/// One case as rows of the table: ours, the peer's, and the ratios: of the rates over one floor, and of the processor time,
/// which the floor hardly changes.
pub fn rows(case: &str, rounds: &[Round]) -> String {
    let mut text = String::new();
    side(&mut text, case, "ours", rounds.iter().map(|round| &round.ours));
    side(&mut text, "", "raw", rounds.iter().map(|round| &round.peer));
    let fair: Vec<&Round> = rounds.iter().filter(|round| round.ours.floor.comparable(&round.peer.floor)).collect();
    let ratio = Spread::of(fair.iter().map(|round| round.ours.run.rate / round.peer.run.rate));
    let unfair = match rounds.len() - fair.len() {
        0 => String::new(),
        n => format!("; {n} of {} rounds left out, the floor moved between the two", rounds.len()),
    };
    let percent = |v: f64| format!("{:.0} %", v * 100.0);
    let ratio = if fair.is_empty() { "no ratio".to_owned() } else { ratio.text(percent) };
    let cpu = Spread::of(rounds.iter().map(|round| round.ours.run.cpu / round.peer.run.cpu)).text(percent);
    let _ = writeln!(text, "| | **ours/raw** | **{ratio}**{unfair} | | | {cpu} | |");
    text
}

fn side<'a>(text: &mut String, case: &str, name: &str, runs: impl Iterator<Item = &'a Measured> + Clone) {
    let spread = |of: fn(&Measured) -> f64| Spread::of(runs.clone().map(of));
    let short = |v: f64| Short(v).to_string();
    let p99 = spread(|m| m.run.p99);
    let p99 = if p99.high > 0.0 { p99.text(short) } else { "–".to_owned() };
    let _ = writeln!(
        text,
        "| {case} | {name} | {} | {} | {p99} | {} | {}, {} |",
        spread(|m| m.run.rate).text(short),
        spread(|m| m.run.p50).text(short),
        spread(|m| m.run.cpu).text(short),
        spread(|m| m.floor.extending).text(short),
        spread(|m| m.floor.rewriting).text(short),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(rate: f64, extending: f64) -> Measured {
        Measured { run: Run { rate, cpu: 1.0, ..Run::default() }, floor: Floor { extending, rewriting: 100.0 } }
    }

    #[test]
    fn a_ratio_only_counts_rounds_over_one_floor() {
        let even = Round { ours: measured(80.0, 200.0), peer: measured(100.0, 210.0) };
        let moved = Round { ours: measured(10.0, 4_000.0), peer: measured(100.0, 200.0) };
        let told = rows("c", &[even, moved, even]);
        assert!(told.contains("**80 % (80 % to 80 %)**; 1 of 3 rounds left out"), "{told}");
        assert!(rows("c", &[moved]).contains("no ratio"), "nothing to compare");
    }
}
