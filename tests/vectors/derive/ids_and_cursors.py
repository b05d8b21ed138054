"""Our own ids and cursors: base32 by integer arithmetic, with the alphabet as Douglas Crockford's page lists it."""

from __future__ import annotations

from _files import INT, MAYBE_INT, TEXT, RuleFile, enum, error, obj, one_of

SELF = "derive/ids_and_cursors.py"
ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
CROCKFORD = "crockford.com/base32 (lower case); own decision: 26 digits, most significant first"
DESIGN = (
    "DESIGN section 2, cursor: opaque, header-safe text from stream id, epoch, claim and seq; own decision: its form"
)
ONE_TEXT = "own decision: one place has one text, so nothing else is read (field report B01: never cut ids apart)"

NUMBERS = {
    "zero": 0,
    "one": 1,
    "thirty-one, the last digit": 31,
    "thirty-two, a carry": 32,
    "all bits": 2**128 - 1,
    "the top bit only": 2**127,
    "ascending bytes": 0x000102030405060708090A0B0C0D0E0F,
    "a random one": 0xC2F4A1B39D5E47708BFA11D264C9E05B,
}


def digits(number: int) -> str:
    out = ""
    for _ in range(26):
        number, digit = divmod(number, 32)
        out = ALPHABET[digit] + out
    assert number == 0
    return out


KINDS = {"call": "call_", "event": "evt_"}
ID_IN = obj({"kind": enum(*KINDS), "bits": TEXT})
ID_TEXT = obj({"text": TEXT})
BITS = {"bits": TEXT}


def ids() -> list[RuleFile]:
    write = RuleFile(
        "id.text", "rules", "The text of an id of ours. `bits` is 32 hexadecimal digits.", ID_IN, ID_TEXT, SELF
    )
    read = RuleFile(
        "id.parse",
        "rules",
        "Reading an id of ours. Only the text that `id.text` gives is read.",
        obj({"kind": enum(*KINDS), "text": TEXT}),
        one_of(obj(BITS), error("prefix", "length", "digit", "range")),
        SELF,
    )
    for kind, prefix in KINDS.items():
        for name, number in NUMBERS.items():
            text, bits = prefix + digits(number), f"{number:032x}"
            write.add(f"{kind}: {name}", CROCKFORD, {"kind": kind, "bits": bits}, {"text": text})
            read.add(f"{kind}: {name}", CROCKFORD, {"kind": kind, "text": text}, {"bits": bits})
    good = digits(NUMBERS["a random one"])

    def bad(name: str, text: str, code: str, source: str = ONE_TEXT) -> None:
        read.add(name, source, {"kind": "call", "text": text}, {"error": code})

    bad("another kind's prefix", f"evt_{good}", "prefix")
    bad("no prefix", good, "prefix")
    bad("empty", "", "prefix")
    bad("the prefix alone", "call_", "length")
    bad("a digit short", f"call_{good[:-1]}", "length")
    bad("a digit long", f"call_{good}0", "length")
    bad("upper case", f"call_{good.upper()}", "digit")
    for letter in "ilou":
        bad(f"the letter {letter}, which Crockford leaves out", f"call_{good[:-1]}{letter}", "digit", CROCKFORD)
    bad("a hyphen, which Crockford lets a reader skip", f"call_{good[:12]}-{good[13:]}", "digit")
    bad("one bit more than 128", "call_8" + "0" * 25, "range")
    bad("all digits z", "call_" + "z" * 26, "range")
    bad("not ASCII, 26 bytes", f"call_{good[:-2]}é", "digit")
    return [write, read]


PLACE = {"stream": TEXT, "epoch": INT, "claim": INT, "next": INT}


def cursors() -> list[RuleFile]:
    write = RuleFile(
        "cursor.text",
        "rules",
        "The text of a cursor: the reader has all events before `next`. `stream` is 32 hexadecimal digits.",
        obj(PLACE),
        obj({"text": TEXT}),
        SELF,
    )
    read = RuleFile(
        "cursor.parse",
        "rules",
        "Reading a cursor. `seq` is the last event the reader has, null at the very start.",
        obj({"text": TEXT}),
        one_of(obj({**PLACE, "seq": MAYBE_INT}), error("malformed")),
        SELF,
    )
    places = [
        ("the very start", 0, 1, 1, 0),
        ("after event 0", 1, 1, 1, 1),
        ("a later epoch and claim", NUMBERS["ascending bytes"], 7, 12, 4096),
        ("all fields zero", 0, 0, 0, 0),
        ("the largest epoch and claim", NUMBERS["all bits"], 2**32 - 1, 2**32 - 1, 3),
        ("after the largest seq", NUMBERS["a random one"], 1, 2, 2**53),
        ("the largest seq itself comes next", NUMBERS["a random one"], 1, 2, 2**53 - 1),
        ("ten claims", NUMBERS["one"], 1, 10, 10),
    ]
    for name, stream, epoch, claim, following in places:
        place = {"stream": f"{stream:032x}", "epoch": epoch, "claim": claim, "next": following}
        text = f"{digits(stream)}.{epoch}.{claim}.{following}"
        # RFC 9110 5.6.2: every character may stand in a header's token.
        assert all(character.isalnum() or character == "." for character in text)
        write.add(name, DESIGN, place, {"text": text})
        read.add(name, DESIGN, {"text": text}, {**place, "seq": following - 1 if following else None})

    good = digits(NUMBERS["a random one"])
    tail = ".1.2.3"
    bad = {
        "empty": "",
        "the id alone": good,
        "the id and a dot": good + ".",
        "two numbers": good + ".1.2",
        "four numbers": good + ".1.2.3.4",
        "a dot behind": good + tail + ".",
        "an empty number": good + ".1..3",
        "a leading zero": good + ".1.2.03",
        "a plus sign": good + ".1.2.+3",
        "a negative number": good + ".1.2.-1",
        "a fraction": good + ".1.2.3,5",
        "an exponent": good + ".1.2.1e3",
        "a hexadecimal number": good + ".1.2.0x3",
        "Arabic-Indic digits (field report B06)": good + ".1.2.٣",
        "an epoch of 33 bits": good + f".{2**32}.2.3",
        "a claim of 33 bits": good + f".1.{2**32}.3",
        "a seq that no JSON number holds exactly": good + f".1.2.{2**53 + 1}",
        "a number of 40 digits": good + ".1.2." + "9" * 40,
        "a blank before": " " + good + tail,
        "a blank behind": good + tail + " ",
        "a line break behind": good + tail + "\n",
        "a NUL inside": good + ".1.2.3\0",
        "upper case": good.upper() + tail,
        "the id a digit short": good[1:] + tail,
        "the id a digit long": "0" + good + tail,
        "an id of more than 128 bits": "8" + "0" * 25 + tail,
        "the letter u": "u" + good[1:] + tail,
        "another separator": good + "-1-2-3",
        "a word (field report B14)": "abc",
        "minus one (field report B14)": "-1",
        "a bare number (field report B17)": "40",
        "a stream id cut at an underscore (field report B01)": "_GET_stream_1767225600123_ab12cd34",
        "not ASCII where the id ends": good[:-1] + "é" + tail,
        "a cursor twice": good + tail + "," + good + tail,
    }
    for name, text in bad.items():
        read.add(name, ONE_TEXT, {"text": text}, {"error": "malformed"})
    return [write, read]


def files() -> list[RuleFile]:
    return ids() + cursors()
