"""Webhooks through the operator's proxy: a real little one, on this machine."""

import json
import socket
import threading
from collections.abc import Iterator

import anyio
import pytest
import tidings
from support import Receiver

pytestmark = pytest.mark.anyio


class Proxy:
    """Opens each tunnel that it is asked for, and keeps what it was asked."""

    def __init__(self) -> None:
        self.heads: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            byte = client.recv(1)
            if not byte:
                return
            head += byte
        self.heads.append(head.decode())
        host, _, port = head.split(b" ")[1].decode().rpartition(":")
        server = socket.create_connection((host, int(port)))
        client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        threading.Thread(target=copy, args=(server, client), daemon=True).start()
        copy(client, server)

    def close(self) -> None:
        self._listener.close()


def copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # one of them has left


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    proxy = Proxy()
    yield proxy
    proxy.close()


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
    assert await hub.close(10)


@pytest.mark.parametrize("proxy", ["", "proxy:3128", "https://proxy:3128", "http://hunter2:x@proxy:1/path"])
def test_what_is_no_proxy_is_refused(proxy: str) -> None:
    with pytest.raises(tidings.InvalidArgument, match=r"^proxy: ") as refused:
        tidings.Hub("memory:", proxy=proxy)
    assert "hunter2" not in str(refused.value)
