//! Numbers that came out of several rounds.

use std::fmt;

/// The value a share of the values lie at or below; `share` from 0 to 1. 0 for no values.
pub fn quantile(values: &mut [f64], share: f64) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    values.sort_by(f64::total_cmp);
    let last = values.len() - 1;
    values[((last as f64 * share).round() as usize).min(last)]
}

/// Median and range over rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// The middle one; of an even number the mean of the middle two.
    pub median: f64,
    /// The lowest.
    pub low: f64,
    /// The highest.
    pub high: f64,
}

impl Spread {
    /// Over these values; all 0 for none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (Some(&low), Some(&high)) = (values.first(), values.last()) else { return Self::default() };
        let (lower, upper) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
        Self { median: f64::midpoint(lower, upper), low, high }
    }

    /// Each number through `f`, which must keep their order.
    pub fn map(self, f: impl Fn(f64) -> f64) -> Self {
        Self { median: f(self.median), low: f(self.low), high: f(self.high) }
    }

    /// As text, with each number written by `write`.
    pub fn text(self, write: impl Fn(f64) -> String) -> String {
        format!("{} ({} to {})", write(self.median), write(self.low), write(self.high))
    }
}

/// A number with three significant digits and, from a thousand on, `k` or `M`.
pub struct Short(pub f64);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            v if v >= 999_500.0 => (v / 1e6, " M"),
            v if v >= 999.5 => (v / 1e3, " k"),
            v => (v, ""),
        };
        let digits = if value >= 99.95 {
            0
        } else if value >= 9.995 {
            1
        } else {
            2
        };
        write!(f, "{value:.digits$}{unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_spreads() {
        let mut values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!((quantile(&mut values, 0.0), quantile(&mut values, 1.0)), (1.0, 100.0));
        assert_eq!(quantile(&mut values, 0.99), 99.0);
        assert_eq!(quantile(&mut [], 0.5), 0.0);
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Spread { median: 2.0, low: 1.0, high: 3.0 });
        assert_eq!(Spread::of([4.0, 1.0]).median, 2.5);
        assert_eq!(Spread::of([]), Spread::default());
    }

    #[test]
    fn short_numbers() {
        let shown: Vec<_> =
            [0.5, 9.99, 12.34, 999.4, 1_234.0, 45_600.0, 999_600.0].map(|v| Short(v).to_string()).into();
        assert_eq!(shown, ["0.50", "9.99", "12.3", "999", "1.23 k", "45.6 k", "1.00 M"]);
    }
}
