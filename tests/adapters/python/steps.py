"""The operations: rules that Python offers, and the steps of scenarios."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

import tidings
from asking import Asking
from fan_out import Outboxes
from tidings import (
    Call,
    ConfigError,
    DecryptionKeys,
    Event,
    Gap,
    HostDelivery,
    Hub,
    Retention,
    Tail,
    TidingsError,
    Webhook,
    WebhookError,
    Writer,
)

Given = dict[str, Any]
Step = Callable[[Given], Coroutine[Any, Any, Any]]


def as_bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes.fromhex(value["hex"])


def error_told(error: TidingsError) -> Given:
    told: Given = {"error": error.code}
    if isinstance(error, ConfigError):
        told["faults"] = [{"path": fault.path, "rule": fault.rule} for fault in error.faults]
    return told


def gap_told(gap: Gap | None) -> Given | None:
    return gap and {"reason": gap.reason, "earliestSeq": gap.earliest_seq, "headSeq": gap.head_seq}


def event_told(event: Event) -> list[Any]:
    try:
        return [event.seq, event.type, event.payload.decode()]
    except UnicodeDecodeError:
        return [event.seq, event.type, {"hex": event.payload.hex()}]


def ended_told(ended: tidings.Ended) -> Given:
    return {
        "outcome": ended.outcome,
        "reason": ended.reason,
        "ours": ended.ours,
        "committed": ended.committed,
        "undelivered": ended.undelivered,
    }


def options(given: Given) -> Given:
    """The arguments of Hub."""
    allow = given.get("allow", {})
    arguments: Given = {
        "allow_networks": allow.get("networks", []),
        "allow_hosts": allow.get("hosts", []),
        "allow_http": allow.get("http", False),
        "allow_ports": allow.get("ports", []),
        "header_names": given.get("headerNames", []),
        "redact": given.get("redact", []),
        "require_secret": given.get("requireSecret", False),
        "default_secret": given.get("defaultSecret"),
        "undeliverable": given.get("undeliverable"),
        "max_body_bytes": given.get("maxBodyBytes"),
    }
    if "retention" in given:
        keep = given["retention"]
        arguments["retention"] = Retention(
            max_events=keep.get("maxEvents"),
            max_bytes=keep.get("maxBytes"),
            max_age=keep["maxAgeMs"] / 1000 if "maxAgeMs" in keep else None,
            after_close=keep["afterCloseMs"] / 1000 if "afterCloseMs" in keep else None,
            max_total_events=keep.get("maxTotalEvents"),
            max_total_bytes=keep.get("maxTotalBytes"),
        )
    return arguments


def after(given: Given) -> int | str | None:
    found: int | str | None = given.get("cursor", given.get("after"))
    return found


class Outlet:
    """A handler that is served in a thread and waits for the scenario's answers."""

    def __init__(self, hub: Hub, kind: str, name: str | None) -> None:
        self.came: queue.Queue[HostDelivery] = queue.Queue()
        self.answers: queue.Queue[str] = queue.Queue()
        if kind == "message":
            serve = hub.serve_sink(name or "", self.handle)
        else:
            if kind == "callback":
                hub.register_callback(name or "", self.handle)
            else:
                hub.register_route_type(kind, self.handle)
            serve = hub.serve_routes()
        threading.Thread(target=hub.run, args=(serve,), daemon=True).start()
        while not hub.serves(kind, name):
            time.sleep(0.001)

    def handle(self, delivery: HostDelivery) -> bool:
        self.came.put(delivery)
        answer = self.answers.get()
        if answer == "fail":
            raise ValueError(answer)
        return answer == "confirm"

    def next(self, answer: str) -> Given:
        delivery = self.came.get(timeout=60)
        self.answers.put(answer)
        return {
            "route": delivery.route,
            "type": delivery.route_type,
            "endpoint": delivery.endpoint,
            "trigger": delivery.trigger,
            "attempt": delivery.attempt,
            "eventId": delivery.event_id,
            "body": delivery.body.decode(),
        }


class Stage:
    """What lives between the steps of a scenario."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.hub: Hub | None = None
        self.writers: dict[str, Writer] = {}
        self.tails: dict[str, tuple[Tail, deque[Any]]] = {}
        self.calls: dict[str, Call] = {}
        self.outlets: dict[str, Outlet] = {}
        self.boxes = Outboxes()
        self.asking = Asking(mode)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Runs a step without an event loop."""
        return (self.hub or Hub("memory:")).run(work)

    def find(self, op: str) -> Step | None:
        if op.startswith("outbox."):
            return getattr(self.boxes, op.partition(".")[2], None)
        return getattr(self, op.replace(".", "_"), None) if "." in op else None

    @property
    def open_hub(self) -> Hub:
        if self.hub is None:
            raise LookupError("no hub is open")
        return self.hub

    # Rules

    async def webhook_sign(self, given: Given) -> Given:
        headers = Webhook(*given["secrets"]).sign(as_bytes(given["body"]), id=given["id"], timestamp=given["timestamp"])
        return {"signature": headers["webhook-signature"]}

    async def webhook_verify(self, given: Given) -> Given:
        limits = {"tolerance": given["tolerance"]} if "tolerance" in given else {}
        webhook = Webhook(*given["secrets"])
        try:
            webhook.verify(as_bytes(given["body"]), dict(given["headers"]), now=given["now"], **limits)
        except WebhookError as error:
            return {"error": error.code}
        return {"ok": True}

    async def jwe_decrypt(self, given: Given) -> Given:
        return {"text": DecryptionKeys(*given["keys"]).decrypt(as_bytes(given["body"])).decode()}

    async def config_check(self, given: Given) -> Given:
        hub = Hub("memory:", **options(given))
        try:
            call = await hub.begin_call(
                config=as_bytes(given["config"]),
                route_types=given["routeTypes"],
                principal="anyone",
                peer="calling",
                open=given.get("open", []),
                request_id=1,
                tool="tool",
            )
            return {"accepted": call.accepted_routes, "ignored": call.ignored_triggers}
        except ConfigError as error:
            return {"faults": error_told(error)["faults"], "total": error.total}
        finally:
            await hub.close()

    async def error_code(self, given: Given) -> Given:
        kinds = (getattr(tidings, name) for name in tidings.__all__)
        for kind in kinds:
            # The base has the code of what has no class of its own.
            error = isinstance(kind, type) and issubclass(kind, TidingsError) and kind is not TidingsError
            if error and kind.code == given["code"]:
                return {"retryable": kind.retryable}
        raise LookupError(f"no error has the code {given['code']}")

    # Scenarios

    async def stage_reset(self, given: Given) -> Given:
        self.tails.clear()
        self.writers.clear()
        self.calls.clear()
        self.boxes = Outboxes()
        hub, self.hub = self.hub, None
        if hub is not None:
            await hub.close(10)
        return {}

    async def hub_open(self, given: Given) -> Given:
        hub = Hub(given["url"], **options(given.get("options", {})))
        hub.open()
        self.hub = hub
        return {}

    async def hub_close(self, given: Given) -> Given:
        return {"complete": await self.open_hub.close(10)}

    async def hub_stats(self, given: Given) -> Given:
        stats = self.open_hub.stats()
        return {"events": stats.events, "lost": stats.lost, "refused": stats.refused, "failing": stats.failing}

    async def hub_new_writer(self, given: Given) -> Given:
        self.writers[given["as"]] = self.open_hub.new_writer(given["scope"], given["name"])
        return {}

    async def hub_resume(self, given: Given) -> Given:
        return self.keep(given, self.open_hub.resume(given["scope"], given["cursor"]))

    async def hub_deliveries(self, given: Given) -> Given:
        call = self.calls[given["call"]].id if "call" in given else None
        return {
            "deliveries": [
                {
                    "route": delivery.route,
                    "trigger": delivery.trigger,
                    "state": delivery.state,
                    "attempts": delivery.attempts,
                    "lastError": delivery.last_error,
                    "eventId": delivery.event_id,
                }
                for delivery in self.open_hub.deliveries(call, given.get("state"), principal=given.get("principal"))
            ]
        }

    async def hub_outbox(self, given: Given) -> Given:
        self.boxes.outboxes[given["as"]] = self.open_hub.outbox()
        return {}

    async def hub_notify(self, given: Given) -> Given:
        # The kind `resource` is what a URI says.
        kinds = [kind for kind in given["kinds"] if kind != "resource" or "uri" not in given]
        fanout = self.open_hub.notify(*kinds, uri=given.get("uri"), audience=given.get("audience"))
        return {"told": fanout.told, "skipped": fanout.skipped, "failed": fanout.failed}

    async def hub_failed_sinks(self, given: Given) -> Given:
        return {"sinks": [self.boxes.name_of(sink) for sink in self.open_hub.failed_sinks()]}

    async def hub_outlet(self, given: Given) -> Given:
        self.outlets[given["as"]] = Outlet(self.open_hub, given["type"], given.get("name"))
        return {}

    async def outlet_next(self, given: Given) -> Given:
        return self.outlets[given["outlet"]].next(given["answer"])

    async def stream_append(self, given: Given) -> Given:
        stream = self.open_hub.stream(given["scope"], given["name"])
        first = await stream.append(
            given["payloads"],
            type=given.get("type", "message"),
            close=given.get("close", False),
            key=given.get("key"),
        )
        return {"first": first}

    async def stream_close(self, given: Given) -> Given:
        await self.open_hub.stream(given["scope"], given["name"]).close()
        return {}

    async def stream_claim(self, given: Given) -> Given:
        self.writers[given["as"]] = await self.open_hub.stream(given["scope"], given["name"]).claim()
        return {}

    async def stream_read(self, given: Given) -> Given:
        page = await self.open_hub.stream(given["scope"], given["name"]).read(after(given))
        return {
            "events": [event_told(event) for event in page.events],
            "gap": gap_told(page.gap),
            "cursor": page.cursor,
            "headSeq": page.head_seq,
            "ended": page.ended,
        }

    async def stream_tail(self, given: Given) -> Given:
        return self.keep(given, self.open_hub.stream(given["scope"], given["name"]).tail(after(given)))

    def keep(self, given: Given, tail: Tail) -> Given:
        self.tails[given["as"]] = tail, deque()
        return {}

    async def tail_next(self, given: Given) -> Given:
        tail, ahead = self.tails[given["tail"]]
        ended = False
        while len(ahead) < given["count"] and not ended:
            try:
                item = await tail.__anext__()
            except StopAsyncIteration:
                ended = True
            else:
                ahead.append({"gap": gap_told(item)} if isinstance(item, Gap) else event_told(item))
        items = [ahead.popleft() for _ in range(min(given["count"], len(ahead)))]
        return {"items": items, "ended": ended}

    async def writer_append(self, given: Given) -> Given:
        writer = self.writers[given["writer"]]
        return {"cursor": writer.append(given["payload"], type=given.get("type", "message"))}

    async def writer_cursor(self, given: Given) -> Given:
        return {"cursor": self.writers[given["writer"]].cursor()}

    async def writer_flush(self, given: Given) -> Given:
        await self.writers[given["writer"]].flush(given.get("durability", "process"))
        return {}

    async def writer_close(self, given: Given) -> Given:
        self.writers[given["writer"]].close()
        return {}

    async def call_begin(self, given: Given) -> Given:
        call = await self.open_hub.begin_call(
            config=as_bytes(given["config"]) if "config" in given else None,
            route_types=given.get("routeTypes", ["webhook"]),
            principal=given.get("principal", "anyone"),
            peer="calling",
            open=given.get("open", []),
            request_id=json.loads(given.get("requestId", "1")),
            tool=given.get("tool", "tool"),
            timeout=given["timeoutMs"] / 1000 if "timeoutMs" in given else None,
            task_ttl=given["taskTtlMs"] / 1000 if "taskTtlMs" in given else None,
        )
        self.calls[given["as"]] = call
        return {
            "callId": call.id,
            "acknowledgement": call.acknowledgement().decode(),
            "accepted": call.accepted_routes,
            "ignored": call.ignored_triggers,
        }

    async def call_emit(self, given: Given) -> Given:
        return {"seq": self.calls[given["call"]].emit(given["type"], given["payload"])}

    async def call_fire(self, given: Given) -> Given:
        return {"seq": self.calls[given["call"]].fire(given["name"], given["payload"])}

    async def call_disconnected(self, given: Given) -> Given:
        self.calls[given["call"]].disconnected()
        return {}

    async def call_complete(self, given: Given) -> Given:
        return ended_told(await self.calls[given["call"]].complete(as_bytes(given["result"])))

    async def call_fail(self, given: Given) -> Given:
        call = self.calls[given["call"]]
        return ended_told(await call.fail(error=given.get("error"), reason=given.get("reason")))

    async def call_cancel(self, given: Given) -> Given:
        return ended_told(await self.calls[given["call"]].cancel(given.get("reason")))

    async def call_ended(self, given: Given) -> Given:
        return ended_told(await self.calls[given["call"]].ended())

    # Tasks

    async def call_ask(self, given: Given) -> Given:
        call = self.calls[given["call"]]
        self.asking.begin(given["as"], self.open_hub, call.ask(as_bytes(given["requests"])))
        return {}

    async def ask_answers(self, given: Given) -> Given:
        return {"answers": (await self.asking.end(given["ask"])).decode()}

    async def hub_task(self, given: Given) -> Given:
        task = self.open_hub.task(given["id"], principal=given.get("principal", "anyone"))
        return {"task": task and task.json}

    async def hub_answer_task(self, given: Given) -> Given:
        asker = given.get("principal", "anyone")
        return {"found": await self.open_hub.answer_task(given["id"], given["responses"], principal=asker)}

    async def hub_cancel_task(self, given: Given) -> Given:
        return {"found": await self.open_hub.cancel_task(given["id"], principal=given.get("principal", "anyone"))}
