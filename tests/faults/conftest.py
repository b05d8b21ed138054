"""The shim, a receiver, and servers on disks that fail."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from faults.faulty import Victim, build_shim
from mcp_wire import Receiver

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_shim(tmp_path_factory.mktemp("shim"))


@pytest.fixture(scope="session")
def receiver() -> Iterator[Receiver]:
    """One for all servers."""
    made = Receiver(SECRET)
    yield made
    made.close()


@pytest.fixture(scope="session")
def make_victim(
    shim: Path, receiver: Receiver, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Victim]]:
    """Makes servers; each is started by its test, and stopped at the end."""
    made: list[Victim] = []

    def make(**options: Any) -> Victim:
        victim = Victim(tmp_path_factory.mktemp("victim"), shim, receiver.port, **options)
        made.append(victim)
        return victim

    yield make
    for victim in made:
        victim.faults.end()
        victim.stop()


@pytest.fixture(scope="session")
def shared_victim(make_victim: Callable[..., Victim]) -> Victim:
    """One server for the tests that leave it as good as new."""
    return make_victim().start()


@pytest.fixture
def victim(shared_victim: Victim) -> Iterator[Victim]:
    """That server, with a well disk and a new stage."""
    shared_victim.ask("reset")
    shared_victim.mark()
    yield shared_victim
    shared_victim.faults.end()
    shared_victim.ask("release")
