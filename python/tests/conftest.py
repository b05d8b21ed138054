"""What every Python test shares."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import tidings
from support import Receiver


@pytest.fixture(params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Async tests run under asyncio; a test that has to hold under trio and uvloop too overrides this in its module."""
    return request.param


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The address of a store of this test's own."""
    return f"sqlite:{tmp_path / 'tidings.db'}"


@pytest.fixture
def hub(url: str) -> Iterator[tidings.Hub]:
    """A hub on a file of its own, that may post to this machine."""
    hub = tidings.Hub(url, allow_networks=["127.0.0.0/8"], allow_http=True)
    yield hub
    assert hub.run(hub.close(60.0))


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A webhook receiver on this machine."""
    receiver = Receiver()
    yield receiver
    receiver.close()
