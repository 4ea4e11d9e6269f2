from tests.api.conftest import _one_connection  # noqa: F401 -- requests keep the connection of the test
