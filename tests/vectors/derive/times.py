"""RFC 3339 texts and Retry-After waits, by the Python library's datetime and email.utils."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from email.utils import format_datetime, parsedate_to_datetime

from _files import INT, MAYBE_INT, TEXT, RuleFile, obj

SELF = "derive/times.py"
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
# 2026-11-30T18:40:56.123Z
NOW = 1_796_064_056_123
MOST = 2**53 - 1


def millis(when: datetime) -> int:
    return (when - EPOCH) // timedelta(milliseconds=1)


def rfc3339() -> RuleFile:
    file = RuleFile(
        "time.rfc3339",
        "rules",
        "A moment as text in UTC with three digits of milliseconds; moments outside the years 0000 to 9999 are clamped.",
        obj({"unixMs": INT}),
        obj({"text": TEXT}),
        SELF,
    )
    by_datetime = "RFC 3339 5.6; Python datetime.isoformat"
    moments = {
        "the epoch": EPOCH,
        "a millisecond before": EPOCH - timedelta(milliseconds=1),
        "a millisecond after": EPOCH + timedelta(milliseconds=1),
        "today": EPOCH + timedelta(milliseconds=NOW),
        "the last second of a year": datetime(2026, 12, 31, 23, 59, 59, 999_000, timezone.utc),
        "a leap day": datetime(2024, 2, 29, 12, 0, 0, 0, timezone.utc),
        "the day after a leap day": datetime(2024, 3, 1, tzinfo=timezone.utc),
        "no leap day in 2100": datetime(2100, 2, 28, 23, 59, 59, 999_000, timezone.utc) + timedelta(milliseconds=1),
        "a leap day in 2000": datetime(2000, 2, 29, 0, 0, 0, 1_000, timezone.utc),
        "31 bits of seconds end": EPOCH + timedelta(seconds=2**31),
        "32 bits of seconds end": EPOCH + timedelta(seconds=2**32),
        "the year 1": datetime(1, 1, 1, tzinfo=timezone.utc),
        "before 1900": datetime(1899, 12, 31, 23, 0, 0, 500_000, timezone.utc),
        "the last moment": datetime(9999, 12, 31, 23, 59, 59, 999_000, timezone.utc),
    }
    for name, when in moments.items():
        text = when.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
        file.add(name, by_datetime, {"unixMs": millis(when)}, {"text": text})
    clamp = "own decision: RFC 3339 has no other years"
    first = millis(datetime(1, 1, 1, tzinfo=timezone.utc)) - 366 * 86_400_000  # the year 0 is a leap year
    file.add(
        "the first moment of year 0",
        "RFC 3339 1: years 0000 to 9999",
        {"unixMs": first},
        {"text": "0000-01-01T00:00:00.000Z"},
    )
    file.add("before year 0", clamp, {"unixMs": first - 1}, {"text": "0000-01-01T00:00:00.000Z"})
    last = millis(moments["the last moment"])
    file.add("after year 9999", clamp, {"unixMs": last + 1}, {"text": "9999-12-31T23:59:59.999Z"})
    file.add("far beyond", clamp, {"unixMs": MOST}, {"text": "9999-12-31T23:59:59.999Z"})
    file.add("far before", clamp, {"unixMs": -MOST}, {"text": "0000-01-01T00:00:00.000Z"})
    return file


def retry_after() -> RuleFile:
    file = RuleFile(
        "retry_after.parse",
        "rules",
        "How long a Retry-After value asks to wait from `nowUnixMs` on, in milliseconds; null: it says nothing that can "
        "be understood. Waits beyond 2^53 - 1 are given as 2^53 - 1.",
        obj({"value": TEXT, "nowUnixMs": INT}),
        obj({"ms": MAYBE_INT}),
        SELF,
    )

    def add(name: str, source: str, value: str, ms: int | None, now: int = NOW) -> None:
        file.add(name, source, {"value": value, "nowUnixMs": now}, {"ms": ms})

    seconds = "RFC 9110 10.2.3 delay-seconds"
    add("seconds", seconds, "120", 120_000)
    add("zero", seconds, "0", 0)
    add("leading zeros are digits", seconds, "007", 7_000)
    add("a day", seconds, "86400", 86_400_000)
    add("too many to count", seconds + "; own decision: as long as can be", "9" * 30, MOST)
    add("blanks around", "RFC 9110 5.5: a value does not include the blanks around it", " \t120 ", 120_000)
    lenient = "own decision: what some servers send (fault 11 of the delivery reference: float, huge, past)"
    add("a fraction", lenient, "1.5", 1_500)
    add("a fraction of a millisecond counts as a whole one", lenient, "0.0001", 1)
    add("a fraction of zeros", lenient, "2.000", 2_000)
    add("a long fraction", lenient, "0.1234567890123", 124)
    add("a negative number means now", lenient, "-3", 0)
    add("minus zero", lenient, "-0", 0)
    add("a negative fraction", lenient, "-0.5", 0)
    nothing = "RFC 9110 10.2.3: neither delay-seconds nor HTTP-date"
    for name, value in {
        "empty": "",
        "blanks only": "  ",
        "a word": "soon",
        "an exponent": "1e3",
        "a plus sign": "+5",
        "two numbers": "1, 2",
        "a number and a unit": "120s",
        "hexadecimal": "0x10",
        "no digit before the point": ".5",
        "no digit behind the point": "5.",
        "two points": "1.2.3",
        "Arabic-Indic digits (field report B06)": "\u0665",
        "a decimal comma": "1,5",
        "two minus signs": "--1",
        "an ISO date, which HTTP does not have": "2026-11-30T18:41:56Z",
    }.items():
        add(name, nothing, value, None)

    # RFC 9110 5.6.7: IMF-fixdate, by email.utils.
    fixdate = "RFC 9110 5.6.7 IMF-fixdate; Python email.utils"
    for name, when in {
        "a minute ahead": EPOCH + timedelta(milliseconds=NOW) + timedelta(seconds=60),
        "in the past": EPOCH + timedelta(milliseconds=NOW) - timedelta(days=1),
        "over the end of the year": datetime(2027, 1, 1, tzinfo=timezone.utc),
        "on a leap day": datetime(2028, 2, 29, 1, 2, 3, tzinfo=timezone.utc),
        "far ahead": datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone.utc),
    }.items():
        value = format_datetime(when.replace(microsecond=0), usegmt=True)
        add(f"a date {name}", fixdate, value, max(0, millis(parsedate_to_datetime(value)) - NOW))
    example = "RFC 9110 5.6.7, its own example"
    sunday = millis(datetime(1994, 11, 6, 8, 49, 37, tzinfo=timezone.utc))
    for form, value in {
        "IMF-fixdate": "Sun, 06 Nov 1994 08:49:37 GMT",
        "RFC 850": "Sunday, 06-Nov-94 08:49:37 GMT",
        "asctime": "Sun Nov  6 08:49:37 1994",
    }.items():
        parsed = parsedate_to_datetime(value)
        assert millis(parsed.replace(tzinfo=timezone.utc)) == sunday
        add(f"{form}: ten seconds before", example, value, 10_000, sunday - 10_000)
        add(f"{form}: at the very moment", example, value, 0, sunday)
        add(f"{form}: half a second later", example, value, 0, sunday + 500)
    add(
        "asctime with a day of two digits",
        "RFC 9110 5.6.7 asctime-date: 2DIGIT or SP DIGIT",
        "Wed Nov 16 08:49:37 1994",
        10 * 86_400_000,
        sunday,
    )
    add(
        "asctime with a day of zero and a digit",
        "RFC 9110 5.6.7 asctime-date",
        "Mon Nov 07 08:49:37 1994",
        86_400_000,
        sunday,
    )
    century = "RFC 9110 5.6.7: a two-digit year that seems over 50 years ahead is the last one that ended so"
    at_2026 = millis(datetime(2026, 11, 30, tzinfo=timezone.utc))
    add(
        "RFC 850: year 27 is next year",
        century,
        "Friday, 01-Jan-27 00:00:00 GMT",
        millis(datetime(2027, 1, 1, tzinfo=timezone.utc)) - at_2026,
        at_2026,
    )
    add(
        "RFC 850: year 76 is fifty years ahead",
        century,
        "Wednesday, 01-Jan-76 00:00:00 GMT",
        millis(datetime(2076, 1, 1, tzinfo=timezone.utc)) - at_2026,
        at_2026,
    )
    add("RFC 850: year 77 is past", century, "Saturday, 01-Jan-77 00:00:00 GMT", 0, at_2026)
    add(
        "RFC 850: year 76, but a month over fifty years ahead, is past",
        century,
        "Friday, 31-Dec-76 00:00:00 GMT",
        0,
        at_2026,
    )
    at_2099 = millis(datetime(2099, 12, 31, tzinfo=timezone.utc))
    add("RFC 850: year 00 seen from 2099 is 2100", century, "Friday, 01-Jan-00 00:00:00 GMT", 86_400_000, at_2099)
    add(
        "the day's name may be wrong: the date decides",
        "own decision",
        "Mon, 06 Nov 1994 08:49:37 GMT",
        1_000,
        sunday - 1_000,
    )
    add(
        "a leap second",
        "RFC 9110 5.6.7: second is 00 to 60",
        "Sat, 31 Dec 2016 23:59:60 GMT",
        1_000,
        millis(datetime(2016, 12, 31, 23, 59, 59, tzinfo=timezone.utc)),
    )
    no_date = "RFC 9110 5.6.7: none of the three forms"
    for name, value in {
        "another zone": "Sun, 06 Nov 1994 08:49:37 CET",
        "an offset for a zone": "Sun, 06 Nov 1994 08:49:37 +0000",
        "no zone": "Sun, 06 Nov 1994 08:49:37",
        "a lower-case month": "Sun, 06 nov 1994 08:49:37 GMT",
        "a month that is none": "Sun, 06 Nox 1994 08:49:37 GMT",
        "a day's name that is none": "Sux, 06 Nov 1994 08:49:37 GMT",
        "a day of one digit": "Sun, 6 Nov 1994 08:49:37 GMT",
        "the 30th of February": "Mon, 30 Feb 2026 08:49:37 GMT",
        "the 29th of February of no leap year": "Sun, 29 Feb 2026 08:49:37 GMT",
        "the 29th of February 2100": "Mon, 29 Feb 2100 08:49:37 GMT",
        "the zeroth": "Sun, 00 Nov 1994 08:49:37 GMT",
        "hour 24": "Sun, 06 Nov 1994 24:00:00 GMT",
        "minute 60": "Sun, 06 Nov 1994 08:60:00 GMT",
        "second 61": "Sun, 06 Nov 1994 08:49:61 GMT",
        "no seconds": "Sun, 06 Nov 1994 08:49 GMT",
        "a year of two digits in IMF-fixdate": "Sun, 06 Nov 94 08:49:37 GMT",
        "something behind it": "Sun, 06 Nov 1994 08:49:37 GMT, 120",
    }.items():
        add(name, no_date, value, None)
    return file


def files() -> list[RuleFile]:
    return [rfc3339(), retry_after()]
