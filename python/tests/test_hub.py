"""The hub: its options, its life, and what a bad argument says."""

import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import tidings
from tidings import _errors, _native


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "redis://x"}, "url: "),
        ({"allow_networks": ["10.0.0.0/99"]}, "allow_networks: "),
        ({"allow_hosts": ["https://x"]}, "allow_hosts: "),
        ({"allow_ports": [0]}, "allow_ports: "),
        ({"allow_ports": [70_000]}, "allow_ports: "),
        ({"retention": tidings.Retention(max_events=-1)}, "retention.max_events: must be 0 or more"),
        ({"default_secret": "hunter2"}, "default_secret: "),
        ({"undeliverable": "ignore"}, "undeliverable: must be 'drop' or 'annotate'"),
        ({"secret_key": b"short"}, "secret_key: must be 32 bytes"),
        ({"retention": tidings.Retention(max_age=-1.0)}, "retention.max_age: must be a number of seconds"),
        ({"attempt_timeout": 0.0}, "attempt_timeout: "),
        ({"attempt_timeout": float("nan")}, "attempt_timeout: "),
        ({"worker_lease": -1.0}, "worker_lease: "),
        ({"max_body_bytes": 0}, "max_body_bytes: "),
        ({"max_body_bytes": -1}, "max_body_bytes: "),
        ({"buffer_bytes": 0}, "buffer_bytes: "),
        ({"header_names": ["host"]}, "header_names: "),
    ],
)
def test_a_bad_option_names_itself_and_its_rule(options: dict[str, object], message: str) -> None:
    with pytest.raises(tidings.InvalidArgument) as caught:
        tidings.Hub(**options)  # type: ignore[arg-type]
    assert str(caught.value).startswith(message)
    assert "hunter2" not in str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "options",
    [
        {"allow_networks": "10.0.0.0/8"},
        {"allow_ports": ["x"]},
        {"secret_key": "x" * 32},
        {"url": 5},
    ],
)
def test_a_wrong_type_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(TypeError) as caught:
        tidings.Hub(**options)  # type: ignore[arg-type]
    assert next(iter(options)) in told(caught.value)


def told(error: BaseException) -> str:
    """What a traceback shows of an error: its text and its notes."""
    return "\n".join([str(error), *getattr(error, "__notes__", [])])


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda hub: hub.new_writer("x" * 1_025, "n"), tidings.InvalidArgument, "scope: at most 1024 bytes"),
        (lambda hub: hub.stream("s", "x" * 1_025), tidings.InvalidArgument, "name: at most 1024 bytes"),
        (lambda hub: hub.new_writer("s", 5), TypeError, "name"),
        (lambda hub: hub.new_writer("s", "n").append({}), TypeError, "payload: must be bytes or str, not dict"),
        (lambda hub: hub.new_writer("s", "n").append(b"", type="x" * 65_536), tidings.TooLargeError, "type"),
        (
            lambda hub: hub.new_writer("s", "n").append_many([b"", 5]),
            TypeError,
            "payloads: must be bytes or str, not int",
        ),
        (lambda hub: hub.run(hub.new_writer("s", "n").flush("ram")), tidings.InvalidArgument, "durability: must be"),
        (
            lambda hub: hub.run(hub.stream("s", "n").append([])),
            tidings.InvalidArgument,
            "payload: must be at least one",
        ),
        (lambda hub: hub.run(hub.stream("s", "n").append(5)), TypeError, "int"),
        (lambda hub: hub.run(hub.stream("s", "n").read(True)), TypeError, "after: must be a cursor"),
        (
            lambda hub: hub.run(hub.stream("s", "n").read(-1)),
            tidings.InvalidArgument,
            "after: must be a sequence number",
        ),
        (lambda hub: hub.run(hub.stream("s", "n").read(limit=0)), tidings.InvalidArgument, "limit: must be at least 1"),
        (
            lambda hub: hub.run(hub.stream("s", "n").read(limit=-1)),
            tidings.InvalidArgument,
            "limit: must be at least 1",
        ),
        (lambda hub: hub.run(hub.stream("s", "n").read(limit=2**32)), tidings.InvalidArgument, "limit: "),
        (lambda hub: hub.deliveries(limit=-1), tidings.InvalidArgument, "limit: must be at least 1"),
        (lambda hub: hub.run(hub.stream("s", "n").read("x")), tidings.CursorError, "after: not a cursor"),
        (lambda hub: hub.stream("s", "n").tail(), tidings.CursorError, "no such stream"),
        (lambda hub: hub.deliveries("call"), tidings.InvalidArgument, "call_id: "),
        (lambda hub: hub.deliveries(state="lost"), tidings.InvalidArgument, "state: must be one of pending, leased"),
        (lambda hub: hub.run(hub.close(-1.0)), tidings.InvalidArgument, "timeout: must be a number of seconds"),
        (lambda hub: hub.run(call(hub, request_id=True)), TypeError, "request_id: must be int or str, not bool"),
        (lambda hub: hub.run(call(hub, request_id=2**64)), tidings.InvalidArgument, "request_id: must be within"),
        (lambda hub: hub.run(call(hub, request_id="x" * 2_000)), tidings.InvalidArgument, "request_id: "),
        (lambda hub: hub.run(call(hub, timeout=-1.0)), tidings.InvalidArgument, "timeout: must be a number of seconds"),
        (lambda hub: hub.run(call(hub, route_types="webhook")), TypeError, "route_types: must be a list of str"),
    ],
)
def test_a_bad_argument_names_itself_and_its_rule(
    hub: tidings.Hub, use: Callable[[tidings.Hub], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        use(hub)
    assert message in told(caught.value)


async def call(hub: tidings.Hub, **arguments: object) -> object:
    defaults: dict[str, object] = {"config": b"{}", "principal": "p", "request_id": 1, "tool": "t"}
    return await hub.begin_call(**{**defaults, **arguments})  # type: ignore[arg-type]


def test_making_a_hub_touches_nothing(tmp_path: Path) -> None:
    hub = tidings.Hub(f"sqlite:{tmp_path / 'none.db'}")
    assert repr(hub) == f"Hub('sqlite:{tmp_path / 'none.db'}')"
    assert hub.stats().groups == 0
    assert hub.run(hub.close())
    assert list(tmp_path.iterdir()) == []


def test_open_tells_what_is_wrong_with_the_store(tmp_path: Path) -> None:
    (tmp_path / "junk.db").write_bytes(b"this is no database" * 100)
    with pytest.raises(tidings.UnsupportedStoreError) as caught:
        tidings.Hub(f"sqlite:{tmp_path / 'junk.db'}").open()
    assert not caught.value.retryable
    with pytest.raises(tidings.TidingsError):
        tidings.Hub(f"sqlite:{tmp_path / 'no' / 'folder' / 'x.db'}").open()


def test_files_are_the_owners(tmp_path: Path) -> None:
    hub = tidings.Hub(f"sqlite:{tmp_path / 't.db'}")
    hub.open()
    writer = hub.new_writer("s", "n")
    writer.append(b"1")
    hub.run(writer.flush())
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes
    assert set(modes.values()) == {0o600}, modes
    assert hub.run(hub.close())


def test_a_closed_hub_says_so(url: str) -> None:
    hub = tidings.Hub(url)
    writer = hub.new_writer("s", "n")
    assert hub.run(hub.close())
    assert hub.run(hub.close())
    for use in (lambda: hub.new_writer("s", "n"), lambda: writer.append(b"1"), hub.open, lambda: hub.deliveries()):
        with pytest.raises(tidings.ClosedError):
            use()


def test_what_a_hub_made_keeps_it_open(url: str) -> None:
    writer = tidings.Hub(url).new_writer("s", "n")
    writer.append(b"1")
    other = tidings.Hub(url)
    other.run(writer.flush())
    del writer
    assert [event.payload for event in other.run(other.stream("s", "n").read()).events] == [b"1"]
    other.run(other.close())


def test_memory_needs_no_file(tmp_path: Path) -> None:
    hub = tidings.Hub("memory:")
    writer = hub.new_writer("s", "n")
    writer.append(b"1", close=True)
    assert hub.run(hub.stream("s", "shared").append(b"2")) == 0
    stats = hub.stats()
    assert (stats.events >= 1, stats.failing, stats.lost) == (True, False, 0)
    assert repr(stats).startswith("Stats(groups=")
    hub.run(hub.close())


def test_one_error_table() -> None:
    rows = _native.error_table()
    assert [number for _, number, _ in rows] == list(range(1, len(rows) + 1))
    for name, _, retryable in rows:
        error = _errors.exception(name, "text", ([], 0, "{}") if name == "invalid_config" else None)
        assert isinstance(error, tidings.TidingsError)
        assert (error.code, error.retryable, str(error)) == (name, retryable, "text")
        assert type(error).__name__ in tidings.__all__
    assert len({type(_errors.exception(name, "", None)) for name, _, _ in rows}) == len(rows) - 1
    assert set(_errors.BY_CODE) == {name for name, _, _ in rows} - {"invalid_config"}


def test_retention_is_the_cores_default_unless_said() -> None:
    assert (tidings.Retention().max_events, tidings.Retention().after_close) == (100_000, 3_600.0)
    assert tidings.Retention(max_events=5).max_age == 86_400.0
    assert tidings.Retention(max_age=None).max_age is None


def test_everything_public_is_there_and_documented() -> None:
    for name in tidings.__all__:
        assert getattr(tidings, name) is not None
        assert name == "__version__" or getattr(tidings, name).__doc__, name
