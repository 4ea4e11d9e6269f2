"""Fixtures for requests of people and of keys."""

from tests.api.conftest import _one_connection  # noqa: F401 -- requests keep the connection of the test
from tests.dashboard.conftest import collected, sign_in  # noqa: F401 -- people open pages
