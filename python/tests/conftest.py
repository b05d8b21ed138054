"""What every Python test shares."""

import pytest


@pytest.fixture(params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Async tests run under asyncio; a test that has to hold under trio and uvloop too overrides this in its module."""
    return request.param
