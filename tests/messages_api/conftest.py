import pytest

from tests.running.conftest import free_port


@pytest.fixture
def closed_port() -> int:
    return free_port()
