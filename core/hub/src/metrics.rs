//! What was delivered and what was not, counted since the hub was opened: a snapshot, and Prometheus's text.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tidings_proto::delivery::{Category, DeliveryState};

/// Counters of one open hub.
#[derive(Default)]
pub(crate) struct Counters {
    /// Attempts that were taken.
    taken: AtomicU64,
    /// Attempts that failed, by category.
    failed: [AtomicU64; Category::ALL.len()],
    /// Deliveries that ended, by state.
    ended: [AtomicU64; DeliveryState::ALL.len()],
    /// Verifications that an endpoint passed, and did not.
    pub(crate) proven: AtomicU64,
    pub(crate) refused: AtomicU64,
    /// Endpoints that were disabled.
    pub(crate) disabled: AtomicU64,
}

impl Counters {
    pub(crate) fn attempt(&self, error: Option<Category>) {
        let count = match error {
            None => Some(&self.taken),
            Some(category) => place(&Category::ALL, category).and_then(|at| self.failed.get(at)),
        };
        if let Some(count) = count {
            count.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn ended(&self, state: DeliveryState) {
        if let Some(count) = place(&DeliveryState::ALL, state).and_then(|at| self.ended.get(at)) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// Deliveries that ended in this state.
    pub(crate) fn of(&self, state: DeliveryState) -> u64 {
        place(&DeliveryState::ALL, state).and_then(|at| self.ended.get(at)).map_or(0, |count| count.load(Relaxed))
    }

    /// All attempts.
    pub(crate) fn attempts(&self) -> u64 {
        self.taken.load(Relaxed) + self.failed.iter().map(|count| count.load(Relaxed)).sum::<u64>()
    }

    /// In Prometheus's text format, version 0.0.4. Labels are names of ours; no principal, no host.
    pub(crate) fn write(&self, out: &mut String) {
        head(out, "tidings_attempts_total", "counter", "Attempts at deliveries that ended, by what they came to.");
        line(out, "tidings_attempts_total", &[("result", "taken")], self.taken.load(Relaxed));
        for (category, count) in Category::ALL.iter().zip(&self.failed) {
            line(out, "tidings_attempts_total", &[("result", category.as_str())], count.load(Relaxed));
        }
        head(out, "tidings_deliveries_total", "counter", "Deliveries that ended, by their final state.");
        for state in DeliveryState::ALL.into_iter().filter(|state| state.is_final()) {
            line(out, "tidings_deliveries_total", &[("state", state.as_str())], self.of(state));
        }
        head(out, "tidings_verifications_total", "counter", "Endpoints asked whether they want webhooks.");
        line(out, "tidings_verifications_total", &[("result", "proven")], self.proven.load(Relaxed));
        line(out, "tidings_verifications_total", &[("result", "refused")], self.refused.load(Relaxed));
        head(out, "tidings_endpoints_disabled_total", "counter", "Endpoints that were disabled.");
        line(out, "tidings_endpoints_disabled_total", &[], self.disabled.load(Relaxed));
    }
}

fn place<T: PartialEq, const N: usize>(all: &[T; N], one: T) -> Option<usize> {
    all.iter().position(|other| *other == one)
}

pub(crate) fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}"); // a String takes everything
}

pub(crate) fn line(out: &mut String, name: &str, labels: &[(&str, &str)], value: u64) {
    let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
    let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
    let _ = writeln!(out, "{name}{labels} {value}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attempt_and_every_end_has_its_line() {
        let counters = Counters::default();
        counters.attempt(None);
        counters.attempt(Some(Category::Timeout));
        counters.attempt(Some(Category::Timeout));
        counters.ended(DeliveryState::Dead);
        let mut text = String::new();
        counters.write(&mut text);
        for line in [
            "# TYPE tidings_attempts_total counter",
            "tidings_attempts_total{result=\"taken\"} 1",
            "tidings_attempts_total{result=\"timeout\"} 2",
            "tidings_attempts_total{result=\"dns_error\"} 0",
            "tidings_deliveries_total{state=\"dead\"} 1",
            "tidings_deliveries_total{state=\"delivered\"} 0",
            "tidings_endpoints_disabled_total 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        assert!(!text.contains("leased"), "only final states");
        assert_eq!(counters.attempts(), 3);
    }
}
