"""The counting of tools/run-tests: what `make test` and CI believe."""

import sys
from pathlib import Path

import pytest
from tools.loading import load

run_tests = load("run-tests")

CARGO_OUTPUT = """\
running 3 tests
test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
\x1b[1mtest result: \x1b[31mFAILED\x1b[0m. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.02s
a test that prints 'test result: ok. 9 passed; 0 failed; 0 ignored;' in the middle of a line
   Doc-tests tidings
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.31s
"""


def suite(code: str, *, may_skip: bool = False) -> object:
    command = [sys.executable, "-c", code]
    return run_tests.Step("it", "a step", command, suite=run_tests.count_cargo, may_skip=may_skip)


def check(code: str) -> object:
    return run_tests.Step("it", "a step", [sys.executable, "-c", code])


def test_cargo_counts_are_summed() -> None:
    assert run_tests.count_cargo(CARGO_OUTPUT.splitlines()) == run_tests.Count(passed=8, failed=2, skipped=1)


def test_conformance_counts_are_in_its_closing_line() -> None:
    lines = ["  rust  10 of 12", "conformance: 10 passed, 2 failed", "not conformance: 9 passed, 9 failed"]
    assert run_tests.count_conformance(lines) == run_tests.Count(passed=10, failed=2)
    assert run_tests.count_conformance(lines[:1]) == run_tests.Count()


def test_node_counts_are_its_closing_lines() -> None:
    lines = ["ok 1 - it", "# tests 9", "# pass 4", "# fail 2", "# cancelled 1", "# skipped 1", "# todo 1", "# pass x"]
    assert run_tests.count_node(lines) == run_tests.Count(passed=4, failed=3, skipped=2)


def test_go_tests_are_counted_by_their_closing_line() -> None:
    lines = ["ok  \tgithub.com/x\t0.5s", "go: 12 passed, 1 failed, 2 skipped", "go: no count"]
    assert run_tests.count_go(lines) == run_tests.Count(passed=12, failed=1, skipped=2)


def test_official_counts_are_in_its_closing_line() -> None:
    lines = ["ok    2025-11-25  ping", "official: 10 passed, 2 failed, 1 skipped", "not official: 9 passed, 9 failed"]
    assert run_tests.count_official(lines) == run_tests.Count(passed=10, failed=2, skipped=1)
    assert run_tests.count_official(lines[:1]) == run_tests.Count()


def test_pytest_counts_come_from_its_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_tests, "PYTEST_REPORT", str(tmp_path / "report.xml"))
    assert run_tests.count_pytest([]) == run_tests.Count(), "no report: pytest did not get to its end"
    (tmp_path / "report.xml").write_text(
        '<testsuites><testsuite tests="10" failures="1" errors="2" skipped="3"></testsuite></testsuites>'
    )
    assert run_tests.count_pytest([]) == run_tests.Count(passed=4, failed=3, skipped=3)


PASSED = "print('test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured')"
IGNORED = "print('test result: ok. 0 passed; 0 failed; 2 ignored; 0 measured')"
FAILED = "print('test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured')"
TABLE = {
    "a check that passes": (check("pass"), (1, 0), ""),
    "a check that fails": (check("raise SystemExit(3)"), (0, 1), "exit code 3"),
    "a suite that passes": (suite(PASSED), (2, 0), ""),
    "a suite with failed tests": (suite(f"{FAILED}; raise SystemExit(101)"), (2, 3), "exit code 101"),
    "a suite that fails without a failed test": (suite(f"{PASSED}; raise SystemExit(101)"), (2, 1), "exit code 101"),
    "a suite that is killed": (suite("import os; os.kill(os.getpid(), 9)"), (0, 1), "killed by SIGKILL"),
    "a suite without tests": (suite("pass"), (0, 1), "ran no test"),
    "a suite that skipped all": (suite(IGNORED), (0, 1), "ran no test"),
    "a suite that may skip all": (suite(IGNORED, may_skip=True), (0, 0), ""),
    "a suite that may skip and ran nothing": (suite("pass", may_skip=True), (0, 1), "ran no test"),
    "a command that does not exist": (
        run_tests.Step("it", "a step", ["./no-such-command"]),
        (0, 1),
        "cannot be started: [Errno 2] No such file or directory: './no-such-command'",
    ),
}


@pytest.mark.parametrize("case", TABLE)
def test_each_way_a_step_ends(case: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_tests, "PYTEST_REPORT", ".cache/none.xml")
    step, (passed, failed), remark = TABLE[case]
    result = run_tests.run(step)
    assert (result.count.passed, result.count.failed, result.remark) == (passed, failed, remark)


def test_what_needs_a_failed_step_is_not_run_and_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []

    def run(step: object) -> object:
        ran.append(step.name)
        return run_tests.Result(step, run_tests.Count(failed=1) if step.name == "a" else run_tests.Count(passed=1), 0.0)

    monkeypatch.setattr(run_tests, "run", run)
    steps = [
        run_tests.Step("a", "", []),
        run_tests.Step("b", "", [], needs=("a",)),
        run_tests.Step("c", "", [], needs=("b",)),
        run_tests.Step("d", "", []),
    ]
    results = run_tests.run_all(steps)
    assert ran == ["a", "d"]
    assert [result.count.failed for result in results] == [1, 1, 1, 0]
    assert results[1].remark == "not run: a failed"


def test_naming_a_step_brings_what_it_needs() -> None:
    assert [step.name for step in run_tests.with_needs(["stubs"])] == ["prerequisites", "python-env", "stubs"]


def test_closing_line() -> None:
    assert str(run_tests.Count(3, 0, 0)) == "3 passed, 0 failed"
    assert str(run_tests.Count(3, 1, 2)) == "3 passed, 1 failed, 2 skipped"
