//! Time as plain numbers: the caller reads the clocks.

/// Milliseconds on the store's own timeline.
///
/// The timeline advances with the host's boot clock and never goes backward, so leases, retries and timers are
/// immune to a wall clock that is set back or forward. Near the wall clock, but never to be shown as one.
pub type StoreMillis = i64;

/// Milliseconds since the Unix epoch by the wall clock: for what a person or a client reads (`timestamp`, event `time`).
pub type UnixMillis = i64;

/// Formats `unix_ms` as RFC 3339 in UTC with milliseconds, `2026-11-30T18:40:56.123Z`.
///
/// Years before 0000 or after 9999 are clamped to those years' bounds, as RFC 3339 has no others.
pub fn rfc3339(unix_ms: UnixMillis) -> String {
    const MIN: i64 = -62_167_219_200_000; // 0000-01-01T00:00:00.000Z
    const MAX: i64 = 253_402_300_799_999; // 9999-12-31T23:59:59.999Z
    let ms = unix_ms.clamp(MIN, MAX);
    let (days, in_day) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    // Civil date from days, with years that start in March so that the leap day is the last one.
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (s, milli) = (in_day / 1_000, in_day % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{milli:03}Z", s / 3_600, s / 60 % 60, s % 60)
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    /// Expected values by `date -u -d @N`.
    #[test]
    fn formats_known_instants() {
        for (ms, want) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_767_225_600_123, "2026-01-01T00:00:00.123Z"),
            (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
            (i64::MAX, "9999-12-31T23:59:59.999Z"),
            (i64::MIN, "0000-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(ms), want, "{ms}");
        }
    }
}
