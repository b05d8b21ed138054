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
def shared_receiver() -> Iterator[Receiver]:
    """That of the server that is shared."""
    made = Receiver(SECRET)
    yield made
    made.close()


@pytest.fixture
def receiver(request: pytest.FixtureRequest) -> Iterator[Receiver]:
    """Where this test's server sends: nothing that another test's server sends late comes here."""
    if "victim" in request.fixturenames:
        yield request.getfixturevalue("shared_receiver")
        return
    made = Receiver(SECRET)
    yield made
    made.close()


@pytest.fixture
def make_victim(
    shim: Path, receiver: Receiver, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Victim]]:
    """Makes servers; each is started by its test, and stopped with it."""
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
def shared_victim(shim: Path, shared_receiver: Receiver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    """One server for the tests that leave it as good as new."""
    victim = Victim(tmp_path_factory.mktemp("victim"), shim, shared_receiver.port).start()
    yield victim
    victim.faults.end()
    victim.stop()


@pytest.fixture
def victim(shared_victim: Victim, shared_receiver: Receiver) -> Iterator[Victim]:
    """That server, with a well disk, a new stage, and nothing of earlier tests on its way."""
    shared_victim.ask("reset")
    shared_victim.settle()
    while not shared_receiver.deliveries.empty():
        shared_receiver.deliveries.get()
    shared_receiver.unverified.clear()
    shared_victim.mark()
    yield shared_victim
    shared_victim.faults.end()
    shared_victim.ask("release")
