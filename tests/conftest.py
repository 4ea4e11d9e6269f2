"""What all tests share: their own data folder, services that may be missing, named people with fixed rights."""

import atexit
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace

# Before any setting is read: no test may touch the data folder of the person who runs it.
DATA_FOLDER = Path(tempfile.mkdtemp(prefix="handoffaudit-tests-"))
atexit.register(shutil.rmtree, DATA_FOLDER, ignore_errors=True)
os.environ["HANDOFFAUDIT_DATA"] = str(DATA_FOLDER)
# A database in memory is one connection: threads would see each other's transactions.
os.environ.setdefault("HANDOFFAUDIT_TEST_DATABASE", str(DATA_FOLDER / "tests.sqlite3"))
os.environ["HANDOFFAUDIT_SECRET_KEY"] = "a key of the tests that is long enough and protects nothing at all"
# Nor may a test ask a model with that person's key.
for name in [name for name in os.environ if name.startswith(("ANTHROPIC_", "HANDOFFAUDIT_MODEL_"))]:
    del os.environ[name]
os.environ["DJANGO_SETTINGS_MODULE"] = "handoffaudit.settings"

import django
import hypothesis
import psycopg
import pytest
import redis
from django.conf import settings

django.setup()
# The real one takes 0.3 s a password.
settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

from handoffaudit.accounts.models import Membership, Person, Role, Tenant
from handoffaudit.diagnostics import workers
from tests.messages_api.server import MessagesServer, running

# Whether an example is right does not depend on how busy the machine is.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

PASSWORD = "correct horse battery staple"
REQUIRED = os.environ.get("HANDOFFAUDIT_TEST_SERVICES") == "required"
POSTGRES_URL = os.environ.get("HANDOFFAUDIT_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/postgres")
REDIS_URL = os.environ.get("HANDOFFAUDIT_TEST_REDIS", "redis://127.0.0.1:6379/15")


def pytest_configure() -> None:
    # Who ends a run that is beside others ends what it started, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, missing in (("services", missing_services), ("browser", missing_browser)):
        if item.get_closest_marker(marker) and (why := missing()):
            if REQUIRED:
                pytest.fail(f"HANDOFFAUDIT_TEST_SERVICES=required, but {why}", pytrace=False)
            pytest.skip(why)


@cache
def missing_services() -> str:
    try:
        psycopg.connect(POSTGRES_URL, connect_timeout=30).close()
    except psycopg.OperationalError:
        return f"PostgreSQL does not answer at {POSTGRES_URL} (HANDOFFAUDIT_TEST_POSTGRES)"
    try:
        with redis.Redis.from_url(REDIS_URL, socket_connect_timeout=30) as client:
            client.ping()
    except redis.ConnectionError:
        return f"Redis does not answer at {REDIS_URL} (HANDOFFAUDIT_TEST_REDIS)"
    return ""


@cache
def find_chromium() -> str:
    given = os.environ.get("HANDOFFAUDIT_TEST_CHROMIUM")
    # The shell first: closing a tab of the whole browser, which has windows without a screen, never ended once.
    names = (given, "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    found = (shutil.which(name) for name in names if name)
    return next((path for path in found if path), "")


def missing_browser() -> str:
    return "" if find_chromium() else "there is no Chromium on the PATH (HANDOFFAUDIT_TEST_CHROMIUM)"


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of the browser; ask for it in tests marked `browser`."""
    return find_chromium()


@pytest.fixture(scope="session")
def postgres_url() -> str:
    """A PostgreSQL server's maintenance database; ask for it in tests marked `services` and make your own beside it."""
    return POSTGRES_URL


@pytest.fixture(scope="session")
def redis_url() -> str:
    return REDIS_URL


@pytest.fixture(autouse=True)
def woken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a process that answers would start or stop in place of workers: no thread of a test outlives it."""
    asked: list[str] = []
    stand_in = SimpleNamespace(wake=lambda: asked.append("wake"), stop=lambda: asked.append("stop"))
    monkeypatch.setattr(workers, "running", stand_in)
    return asked


@pytest.fixture
def tenant(db: None) -> Tenant:
    return Tenant.objects.create(slug="acme", name="Acme")


@pytest.fixture
def other_tenant(db: None) -> Tenant:
    return Tenant.objects.create(slug="globex", name="Globex")


@pytest.fixture
def password() -> str:
    """What each of the people below signs in with."""
    return PASSWORD


def member(tenant: Tenant, name: str, role: Role) -> Person:
    person = Person.objects.create_user(username=name, email=f"{name}@example.com", password=PASSWORD)
    Membership.objects.create(tenant=tenant, person=person, role=role)
    return person


@pytest.fixture
def viewer(tenant: Tenant) -> Person:
    return member(tenant, "viewer", Role.VIEWER)


@pytest.fixture
def reviewer(tenant: Tenant) -> Person:
    return member(tenant, "reviewer", Role.REVIEWER)


@pytest.fixture
def admin(tenant: Tenant) -> Person:
    return member(tenant, "admin", Role.ADMIN)


@pytest.fixture
def stranger(other_tenant: Tenant) -> Person:
    """The administrator of another tenant: has every right there, none here."""
    return member(other_tenant, "stranger", Role.ADMIN)


@pytest.fixture(scope="session")
def messages_api() -> Iterator[MessagesServer]:
    with running() as server:
        yield server


@pytest.fixture
def model(messages_api: MessagesServer, settings) -> Iterator[MessagesServer]:
    """A key is set, and the real SDK asks a server of our own: it finds no fault unless it is told what to find. Each
    call has one try."""
    messages_api.reset()
    settings.ANTHROPIC_API_KEY = "sk-of-the-tests"
    settings.MODEL_BASE_URL = messages_api.url
    settings.MODEL_TRIES = 1
    settings.MODEL_SECONDS = 10
    yield messages_api
    messages_api.reset()
