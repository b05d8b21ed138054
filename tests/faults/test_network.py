"""What an environment may say about the network has no say about where a webhook goes."""

from __future__ import annotations

import socket
from collections.abc import Callable

from faults.faulty import Victim
from mcp_wire import LEGACY, Client, Receiver


def test_a_proxy_of_the_environment_is_not_asked(make_victim: Callable[..., Victim], receiver: Receiver) -> None:
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        url = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        names = ("http_proxy", "https_proxy", "all_proxy")
        named = {name: url for lower in names for name in (lower, lower.upper())}
        victim = make_victim(environment={**named, "no_proxy": "", "NO_PROXY": ""}).start()
        result = (
            Client(victim.port, LEGACY).call("steps", notificationConfig=receiver.config("completed")).messages()[-1]
        )
        assert receiver.next()["data"]["callId"] == result["result"]["_meta"]["io.tidings/acknowledged"]["callId"]
        # It came, and nobody has knocked at the proxy.
        proxy.setblocking(False)
        try:
            proxy.accept()
        except BlockingIOError:
            return
        raise AssertionError("the proxy was asked")
