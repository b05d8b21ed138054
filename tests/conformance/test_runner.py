"""The runner itself: it fails where it has to, and the derived files are what their scripts make."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conformance import fixtures, matching, run, shapes
from conformance.adapter import Adapter, Failed, Unsupported

VECTORS = fixtures.VECTORS


def differences(
    want: Any, got: Any, bound: dict[str, Any] | None = None, unordered: list[str] | None = None
) -> list[str]:
    return list(matching.differences(want, got, {} if bound is None else bound, unordered or []))


@pytest.mark.parametrize(
    ("want", "got"),
    [
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {"a": "1"}),
        ({"a": None}, {}),
        ({}, {"a": None}),
        ([1, 2], [1]),
        ([1, 2], [2, 1]),
        ("a", "a "),
        ({"a": []}, {"a": {}}),
    ],
)
def test_what_differs_is_told(want: Any, got: Any) -> None:
    assert differences(want, got)
    assert not differences(want, want)


def test_lists_without_order_still_need_the_same_elements() -> None:
    assert not differences({"f": [1, 2]}, {"f": [2, 1]}, unordered=["f"])
    assert differences({"f": [1, 1]}, {"f": [2, 1]}, unordered=["f"])


def test_a_name_stands_for_the_same_thing_everywhere() -> None:
    bound: dict[str, Any] = {}
    assert not differences(["${a}", 'x"${b}"y${_}', "${a}"], [7, 'x"q"yz', 7], bound)
    assert bound == {"a": 7, "b": "q"}
    assert differences("${a}", 8, bound)
    assert differences("<${b}>", "<r>", bound)
    assert differences("${c}-${c}", "1-2", {})
    assert matching.fill({"x": ["${a}", "${b}!"]}, bound) == {"x": [7, "q!"]}
    with pytest.raises(KeyError):
        matching.fill("${nobody}", bound)


def test_dots_and_brackets_of_an_expected_text_are_text() -> None:
    assert differences("a.c ${x}", "abc 1")
    assert not differences("[a] ${x}", "[a] 1")


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "integer"}, [0, -1], [True, 1.5, "1", None]),
        ({"type": ["integer", "null"]}, [None, 3], ["", False]),
        ({"enum": [1, "a"]}, [1, "a"], [True, "b"]),
        ({"const": True}, [True], [1]),
        ({"type": "string", "pattern": "^a"}, ["ab"], ["ba", 1]),
        ({"required": ["a"], "properties": {"a": {"type": "string"}}}, [{"a": ""}], [{}, {"a": 1}]),
        ({"properties": {"a": {}}, "additionalProperties": False}, [{"a": 1}], [{"b": 1}]),
        ({"items": {"type": "string"}, "minItems": 1}, [["a"]], [[], [1]]),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, ["a", 1], [None]),
        ({"oneOf": [{"type": "string"}, {"enum": ["a"]}]}, ["b"], ["a"]),
    ],
)
def test_shapes_agree_with_jsonschema(schema: dict[str, Any], good: list[Any], bad: list[Any]) -> None:
    judge = pytest.importorskip("jsonschema").Draft202012Validator(schema)
    for value in good + bad:
        ours = not list(shapes.faults(value, schema, schema))

        assert ours == judge.is_valid(value), value


def test_an_unknown_keyword_is_not_passed_over() -> None:
    with pytest.raises(ValueError, match="maxLength"):
        list(shapes.faults("a", {"maxLength": 1}, {}))


def rule_file(folder: Path, **change: Any) -> Path:
    vector = {"name": "one", "rule": "a.b", "source": "RFC 1", "in": {"x": 1}, "out": {"y": 1}}
    shape = {
        "type": "object",
        "required": ["x"],
        "properties": {"x": {"type": "integer"}},
        "additionalProperties": False,
    }
    file = {
        "rule": "a.b",
        "feature": "rules",
        "about": "what it is about",
        "shape": {"in": shape, "out": {"type": "object"}},
        "vectors": [{**vector, **change}],
    }
    path = folder / "a_b.json"
    path.write_text(json.dumps(file))
    return path


RULES_SCHEMA = json.loads((VECTORS / "rules.schema.json").read_text())


def test_a_good_file_is_loaded(tmp_path: Path) -> None:
    (vector,) = fixtures.load_rule(rule_file(tmp_path), RULES_SCHEMA).vectors
    assert vector.id == "a.b: one"


@pytest.mark.parametrize(
    "change",
    [{"source": "somewhere"}, {"rule": "a.c"}, {"in": {"x": "1"}}, {"in": {}}, {"more": 1}, {"name": ""}, {"out": 1}],
)
def test_a_broken_file_stops_the_run(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(fixtures.Broken):
        fixtures.load_rule(rule_file(tmp_path, **change), RULES_SCHEMA)


def test_a_member_twice_stops_the_run(tmp_path: Path) -> None:
    path = rule_file(tmp_path)
    path.write_text(path.read_text().replace('"x": 1', '"x": 1, "x": 2'))
    with pytest.raises(fixtures.Broken, match="twice"):
        fixtures.load_rule(path, RULES_SCHEMA)


def test_long_texts_are_put_together() -> None:
    assert fixtures.expand({"a": [{"$concat": ["x", {"$repeat": "ab", "$times": 2}]}]}) == {"a": ["xabab"]}


def test_a_surface_run_by_hand_is_left_out_unless_it_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    surfaces = {"a": {"command": []}, "b": {"command": [], "by_hand": "make test-b"}}
    assert run.chosen(surfaces, []) == ["a"]
    assert "left out b: it is run by make test-b" in capsys.readouterr().out
    assert run.chosen(surfaces, ["b"]) == ["b"]


FLOOR = {"vectors": 5, "scenarios": 2, "surfaces": {"s": {"vectors": 3, "scenarios": 1}}}


@pytest.mark.parametrize(
    "change", [{"vectors": 4}, {"scenarios": 1}, {"surfaces": {"s": {"vectors": 2, "scenarios": 1}}}]
)
def test_less_than_the_floor_fails(change: dict[str, Any]) -> None:
    assert run.below_floor(FLOOR, FLOOR) == []
    assert len(run.below_floor({**FLOOR, **change}, FLOOR)) == 1


def adapter(tmp_path: Path, body: str) -> Adapter:
    script = tmp_path / "adapter.py"
    script.write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    q = json.loads(line)\n"
        "    if q['op'] == 'hello': a = {'out': {'surface': 'x', 'features': ['rules']}}\n"
        f"    else:\n        {body}\n"
        "    print(json.dumps({'id': q['id'], **a}), flush=True)\n"
    )
    return Adapter([sys.executable, str(script)], tmp_path)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("a = {'unsupported': True}", Unsupported),
        ("a = {'error': 'no'}", Failed),
        ("a = {}", Failed),
        ("a = {'id': 99, 'out': 1}", Failed),
        ("print('no json', flush=True); continue", Failed),
        ("sys.exit(3)", Failed),
    ],
)
def test_an_adapter_that_does_not_answer_fails(tmp_path: Path, body: str, error: type[Exception]) -> None:
    under_test = adapter(tmp_path, body)
    try:
        with pytest.raises(error):
            under_test.ask("a.b", {})
    finally:
        under_test.stop()


def test_an_adapter_that_hangs_is_ended(tmp_path: Path) -> None:
    under_test = adapter(tmp_path, "sys.stdin.read(); continue")
    with pytest.raises(Failed, match="no answer"):
        under_test.ask("a.b", {}, limit=0.2)
    assert under_test.process is None


def surface(tmp_path: Path, body: str, excluded: dict[str, str]) -> run.Result:
    under_test = run.Surface("x", adapter(tmp_path, body).command, excluded)
    vectors = [fixtures.Vector("a.b", name, {}, {"y": 1}) for name in ("one", "two")]
    return under_test.run([fixtures.Rule("a.b", "rules", [], vectors), fixtures.Rule("c.d", "more", [], vectors)], [])


def test_what_is_not_offered_is_not_run_and_what_is_offered_has_to_be_known(tmp_path: Path) -> None:
    result = surface(tmp_path, "a = {'unsupported': True}", {})
    assert (result.vectors.passed, len(result.vectors.failed), result.vectors.not_offered) == (0, 2, 2)


def test_an_exclusion_covers_a_failure_and_is_a_failure_itself_once_it_is_stale(tmp_path: Path) -> None:
    why = {"a.b: one": "argued"}
    result = surface(tmp_path, "a = {'out': {'y': 2}}", why)
    assert (result.vectors.excluded, len(result.vectors.failed)) == (1, 1)
    result = surface(tmp_path, "a = {'out': {'y': 1}}", why)
    assert (result.vectors.passed, len(result.vectors.failed)) == (1, 1)
    assert "take it out" in result.vectors.failed[0]


def test_the_derived_files_are_what_their_scripts_make() -> None:
    done = subprocess.run([sys.executable, VECTORS / "derive", "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_file_that_names_a_script_is_made_by_one() -> None:
    for path in sorted((VECTORS / "rules").glob("*.json")):
        script = json.loads(path.read_text()).get("derived_by")
        assert script is None or (VECTORS / script).is_file(), path.name
    for script in (VECTORS / "derive").glob("*.py"):
        text = script.read_text()
        assert "import tidings" not in text, "a script must not use what is under test"
        assert "from tidings" not in text, "a script must not use what is under test"
