//! Numbers compared by their exact value, whatever way they are written.

use std::cmp::Ordering;

/// The value of a valid JSON number: `0.DIGITS × 10^EXPONENT`, negative or not. Zero has no digits.
struct Exact {
    negative: bool,
    exponent: i128,
    digits: Vec<u8>,
}

/// Exponents beyond this are all the same; a text that names one has no more meaning than the next.
const MOST: i128 = i128::MAX / 4;

impl Exact {
    fn of(text: &str) -> Self {
        let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = whole.bytes().chain(fraction.bytes());
        let mut digits: Vec<u8> = all.skip_while(|digit| *digit == b'0').collect();
        let leading = whole.len() + fraction.len() - digits.len();
        while digits.last() == Some(&b'0') {
            digits.pop();
        }
        if digits.is_empty() {
            return Self { negative: false, exponent: 0, digits };
        }
        let beyond = if exponent.starts_with('-') { -MOST } else { MOST };
        let exponent = exponent.parse::<i128>().map_or(beyond, |exponent| exponent.clamp(-MOST, MOST));
        let length = |length: usize| i128::try_from(length).unwrap_or(MOST);
        Self { negative, exponent: exponent + length(whole.len()) - length(leading), digits }
    }
}

/// Compares two valid JSON numbers. `1`, `1.0` and `10e-1` are the same; nothing is rounded. Takes time linear in their
/// length.
pub(crate) fn compare(left: &str, right: &str) -> Ordering {
    let (left, right) = (Exact::of(left), Exact::of(right));
    let sign = |number: &Exact| match (number.digits.is_empty(), number.negative) {
        (true, _) => 0,
        (false, true) => -1,
        (false, false) => 1,
    };
    let size = || left.exponent.cmp(&right.exponent).then_with(|| left.digits.cmp(&right.digits));
    sign(&left).cmp(&sign(&right)).then_with(|| match sign(&left) {
        0 => Ordering::Equal,
        1 => size(),
        _ => size().reverse(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_what_they_stand_for() {
        use Ordering::{Equal, Greater, Less};
        for (left, right, want) in [
            ("1", "1.0", Equal),
            ("1", "10e-1", Equal),
            ("100", "1E+2", Equal),
            ("0", "-0", Equal),
            ("0.0", "0e999999999999999999999999999999999999999999", Equal),
            // Both are 9007199254740992 as doubles (field report B61).
            ("9007199254740993", "9007199254740992", Greater),
            ("123456789012345678901234567890", "123456789012345678901234567891", Less),
            ("1e400", "1e401", Less),
            ("-1e400", "1e-400", Less),
            ("-1e400", "-1e401", Greater),
            ("1e-400", "0", Greater),
            ("0.1", "0.10000000000000000000000000000000000001", Less),
            ("-1.5", "-1.25", Less),
            ("99", "100", Less),
            ("9e99999999999999999999", "1e99999999999999999999", Greater),
        ] {
            assert_eq!(compare(left, right), want, "{left} {right}");
            assert_eq!(compare(right, left), want.reverse(), "{right} {left}");
        }
    }

    proptest! {
        /// An independent way to the same answer: both as integers of one scale.
        #[test]
        fn agrees_with_integers_of_one_scale(
            a in -99_999_i128..99_999, b in -99_999_i128..99_999, left in -8_i32..8, right in -8_i32..8,
        ) {
            let scaled = |value: i128, exponent: i32| value * 10_i128.pow(u32::try_from(exponent + 8).unwrap_or(0));
            let want = scaled(a, left).cmp(&scaled(b, right));
            prop_assert_eq!(compare(&format!("{a}e{left}"), &format!("{b}E{right}")), want);
            prop_assert_eq!(compare(&format!("{a}.000e{left}"), &format!("{b}.0e{right}")), want);
        }
    }
}
