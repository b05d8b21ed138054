"""Webhooks through the operator's proxy: a real little one, on this machine."""

import contextlib
import json
import select
import socket
import socketserver
import threading
from collections.abc import Iterator

import anyio
import pytest
import tidings
from support import Receiver

pytestmark = pytest.mark.anyio


class Tunnel(socketserver.BaseRequestHandler):
    """One tunnel, to its end."""

    def handle(self) -> None:
        assert isinstance(self.server, Proxy)
        client: socket.socket = self.request
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            byte = client.recv(1)
            if not byte:
                return
            head += byte
        self.server.heads.append(head.decode())
        host, _, port = head.split(b" ")[1].decode().rpartition(":")
        with socket.create_connection((host, int(port))) as server, contextlib.suppress(ConnectionError):
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            other = {client: server, server: client}
            while True:
                for source in select.select(list(other), [], [])[0]:
                    data = source.recv(65_536)
                    if not data:
                        return
                    other[source].sendall(data)


class Proxy(socketserver.ThreadingTCPServer):
    """Opens each tunnel that it is asked for, and keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Tunnel)
        self.heads: list[str] = []
        self.address = f"127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with Proxy() as proxy:
        thread = threading.Thread(target=proxy.serve_forever)
        thread.start()
        yield proxy
        proxy.shutdown()
        thread.join()


async def test_a_webhook_goes_through_the_proxy(
    receiver: Receiver, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody listens there, and nobody asks.
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    through = f"http://user:open%20sesame@{proxy.address}"
    hub = tidings.Hub("memory:", allow_networks=["127.0.0.0/8"], allow_http=True, proxy=through)
    route = {"id": "r", "type": "webhook", "endpoint": receiver.url, "triggers": ["completed"]}
    call = await hub.begin_call(config=json.dumps({"routes": [route]}), principal="p", request_id=1, tool="t")
    await call.complete("{}")
    with anyio.fail_after(60):
        while not hub.deliveries(call.id, "delivered"):  # noqa: ASYNC110 - a delivery tells nobody
            await anyio.sleep(0.01)
    assert receiver.next().json["name"] == "tool_call.completed"
    target = receiver.url.split("/")[2]
    # RFC 7617: base64 of "user:open sesame".
    assert proxy.heads == [
        f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nProxy-Authorization: Basic dXNlcjpvcGVuIHNlc2FtZQ==\r\n\r\n"
    ]
    assert await hub.close(60)


@pytest.mark.parametrize("proxy", ["", "proxy:3128", "https://proxy:3128", "http://hunter2:x@proxy:1/path"])
def test_what_is_no_proxy_is_refused(proxy: str) -> None:
    with pytest.raises(tidings.InvalidArgument, match=r"^proxy: ") as refused:
        tidings.Hub("memory:", proxy=proxy)
    assert "hunter2" not in str(refused.value)
