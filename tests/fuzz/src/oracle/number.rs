//! Decimal numbers by their exact value, lined up digit by digit.

use std::cmp::Ordering;

/// How far apart two numbers may lie to be lined up; what a corpus holds stays far below.
const WIDEST: i64 = 20_000;

/// Digits before and after the point, at the power of ten of the first one.
struct Digits {
    negative: bool,
    /// The power of ten of `digits[0]`.
    top: i64,
    digits: Vec<u8>,
}

impl Digits {
    fn of(text: &str) -> Option<Self> {
        let negative = text.starts_with('-');
        let text = text.trim_start_matches('-');
        let (mantissa, power) = match text.find(['e', 'E']) {
            Some(at) => (&text[..at], text[at + 1..].trim_start_matches('+').parse::<i64>().ok()?),
            None => (text, 0),
        };
        let point = mantissa.find('.').unwrap_or(mantissa.len());
        let digits = mantissa.bytes().filter(u8::is_ascii_digit).map(|digit| digit - b'0').collect();
        Some(Self { negative, top: i64::try_from(point).ok()?.checked_sub(1)?.checked_add(power)?, digits })
    }

    fn at(&self, power: i64) -> u8 {
        self.top
            .checked_sub(power)
            .and_then(|index| usize::try_from(index).ok())
            .map_or(0, |index| self.digits.get(index).copied().unwrap_or(0))
    }

    fn bottom(&self) -> i64 {
        self.top - i64::try_from(self.digits.len()).unwrap_or(WIDEST)
    }
}

/// Compares two JSON numbers; `None` where their exponents lie too far apart to line them up.
pub fn compare(left: &str, right: &str) -> Option<Ordering> {
    let (left, right) = (Digits::of(left)?, Digits::of(right)?);
    let (top, bottom) = (left.top.max(right.top), left.bottom().min(right.bottom()));
    if top.checked_sub(bottom)? > WIDEST {
        return None;
    }
    let size = |negative: bool, digit: u8| if negative { -i16::from(digit) } else { i16::from(digit) };
    let zero = |digits: &Digits| digits.digits.iter().all(|digit| *digit == 0);
    // Of different signs the first digit that is not zero would decide by itself; said plainly all the same.
    match (zero(&left), zero(&right)) {
        (true, true) => return Some(Ordering::Equal),
        (true, false) => return Some(if right.negative { Ordering::Greater } else { Ordering::Less }),
        (false, true) => return Some(if left.negative { Ordering::Less } else { Ordering::Greater }),
        (false, false) if left.negative != right.negative => {
            return Some(if left.negative { Ordering::Less } else { Ordering::Greater });
        }
        (false, false) => {}
    }
    for power in (bottom..=top).rev() {
        let order = size(left.negative, left.at(power)).cmp(&size(right.negative, right.at(power)));
        if order.is_ne() {
            return Some(order);
        }
    }
    Some(Ordering::Equal)
}
