"""Secrets and redacted values are nowhere but where they belong: no log line, error, `repr`, record or file has them."""

import base64
import json
import logging
from pathlib import Path

import anyio
import pytest
import tidings
from support import Receiver

pytestmark = pytest.mark.anyio

KEY = b"0123456789abcdef0123456789ABCDEF"
ROUTE_SECRET = "whsec_" + base64.b64encode(b"route-secret-route-secret-route!").decode()
DEFAULT_SECRET = "whsec_" + base64.b64encode(b"default-secret-default-secret-!!").decode()
NEEDLES = [
    KEY,
    ROUTE_SECRET.removeprefix("whsec_").encode(),
    base64.b64decode(ROUTE_SECRET.removeprefix("whsec_")),
    DEFAULT_SECRET.removeprefix("whsec_").encode(),
    base64.b64decode(DEFAULT_SECRET.removeprefix("whsec_")),
    b"header-hunter2",
    b"path-hunter2",
    b"query-hunter2",
    b"redacted-hunter2",
]


def assert_clean(where: str, text: str | bytes) -> None:
    raw = text.encode() if isinstance(text, str) else text
    for needle in NEEDLES:
        assert needle not in raw, f"{where} shows {needle!r}"


def route(id: str, endpoint: str, triggers: list[object], **more: object) -> dict[str, object]:
    headers = {"x-token": "header-hunter2"}
    return {"id": id, "type": "webhook", "endpoint": endpoint, "triggers": triggers, "headers": headers, **more}


def assert_files_clean(folder: Path) -> None:
    for path in folder.iterdir():
        assert_clean(path.name, path.read_bytes())


async def test_nothing_shows_a_secret(tmp_path: Path, receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    database = tmp_path / "tidings.db"
    hub = tidings.Hub(
        f"sqlite:{database}",
        allow_networks=["127.0.0.0/8"],
        allow_http=True,
        default_secret=DEFAULT_SECRET,
        secret_key=KEY,
        redact=["password", "/result/card"],
        undeliverable="annotate",
    )
    shown: list[object] = [hub]
    triggers: list[object] = ["completed", "com.example/x", {"elapsedMs": 1}, {"group": "g", "count": 1}]
    config = {
        "group": "g",
        "routes": [
            # Nobody listens there: refused, again and again, until the next route takes over.
            route("dead", "http://127.0.0.1:1/path-hunter2?token=query-hunter2", triggers, secret=ROUTE_SECRET),
            route("alive", receiver.url + "/path-hunter2?token=query-hunter2", triggers, redact=["kept"]),
        ],
    }
    call = await hub.begin_call(config=json.dumps(config), principal="p", request_id=1, tool="t", task_ttl=60)
    call.emit("com.example.step", '{"password":"redacted-hunter2"}')
    call.fire("com.example/x", '{"deep":[{"password":{"x":"redacted-hunter2"}}]}')
    stream = hub.stream("scope", "name")
    await stream.append(['{"password":"redacted-hunter2"}', "redacted-hunter2 is no JSON"])
    writer = hub.new_writer("scope", "other")
    writer.append('[{"password":"redacted-hunter2"}]')
    await writer.flush("disk")
    ended = await call.complete('{"card":"redacted-hunter2","kept":1,"content":[{"password":"redacted-hunter2"}]}')
    with anyio.fail_after(60):
        while not hub.deliveries(call.id) or not any(d.last_error for d in hub.deliveries(call.id)):  # noqa: ASYNC110
            await anyio.sleep(0.01)
    shown += [call, ended, ended.undelivered, call.acknowledgement(), stream, writer]
    shown += hub.deliveries(call.id)
    shown += [hub.attempts(delivery.id) for delivery in hub.deliveries(call.id)]
    shown += [*hub.deliveries(principal="p"), *hub.endpoints("p"), hub.stats(), hub.prometheus()]
    shown.append(hub.task(call.id, principal="p"))
    page = await stream.read()
    shown += [page, *page.events, *(event.payload for event in page.events)]

    # What requests would look alike is kept, to find what goes together; not so that anybody could read it.
    batch = {"maxEvents": 2, "maxDelayMs": 60_000}
    batching = {
        "routes": [route("b", "http://127.0.0.1:1/path-hunter2", ["completed"], secret=ROUTE_SECRET, batch=batch)]
    }
    waiting = await hub.begin_call(config=json.dumps(batching), principal="p", request_id=3, tool="t")
    await waiting.complete("{}")
    assert [one.state for one in hub.deliveries(waiting.id)] == ["pending"]

    # Through a proxy that is not there.
    behind = tidings.Hub(
        f"sqlite:{tmp_path / 'behind.db'}",
        allow_networks=["127.0.0.0/8"],
        allow_http=True,
        proxy="http://user:header-hunter2@127.0.0.1:1",
    )
    proxied = await behind.begin_call(config=json.dumps(config), principal="p", request_id=1, tool="t")
    await proxied.complete("{}")
    with anyio.fail_after(60):
        while not any(one.last_error == "proxy_error" for one in behind.deliveries(proxied.id)):  # noqa: ASYNC110
            await anyio.sleep(0.01)
    shown += [behind, *behind.deliveries(proxied.id)]
    assert await behind.close(60)

    # Something to log: a call that nobody ends.
    await hub.begin_call(config=json.dumps(config), principal="p", request_id=2, tool="t")

    for bad in (
        json.dumps({"routes": [route("r", "http://u:path-hunter2@127.0.0.1/", ["completed"])]}),
        json.dumps({"routes": [route("r", "ftp://127.0.0.1/path-hunter2?token=query-hunter2", ["completed"])]}),
        json.dumps({"routes": [{**config["routes"][0], "secret": "whsec_header-hunter2"}]}),
        json.dumps(
            {"routes": [{**config["routes"][0], "headers": {"host": "header-hunter2", "x-a": "header-hunter2\n"}}]}
        ),
        json.dumps(config).replace('"webhook"', '"pager"') + "}",
    ):
        with pytest.raises(tidings.ConfigError) as refused:
            await hub.begin_call(config=bad, principal="p", request_id=1, tool="t")
        shown += [refused.value, str(refused.value), *refused.value.faults]
    for arguments in (
        {"default_secret": "whsec_header-hunter2"},
        {"secret_key": b"header-hunter2"},
        {"proxy": "https://u:header-hunter2@proxy:1"},
        {"proxy": "http://header-hunter2@proxy:1/path-hunter2"},
    ):
        with pytest.raises(tidings.InvalidArgument) as wrong:
            tidings.Hub("memory:", **arguments)  # type: ignore[arg-type]
        shown.append(wrong.value)

    for thing in shown:
        assert_clean(f"repr of {type(thing).__name__}", repr(thing))
    assert_files_clean(tmp_path)
    assert (tmp_path / "tidings.db-wal").exists(), "with the log beside the database, as long as the hub is open"
    assert await hub.close(60)
    assert_files_clean(tmp_path)
    assert caplog.records, "there was something to log"
    for record in caplog.records:
        assert_clean(f"log line of {record.name}", record.getMessage())
    # What was to be kept was kept.
    assert b'"kept":1' in database.read_bytes()
