"""Fixtures of all tests: the data folder, optional services, and named people with fixed rights."""

import atexit
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.redis_databases import NoSuchDatabase, url_of_worker

# Without bytecode every worker and every process that a test starts would compile all modules anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Before any setting is read: no test may touch the data folder of the person who runs it.
DATA_FOLDER = Path(tempfile.mkdtemp(prefix="handoffaudit-tests-"))
atexit.register(shutil.rmtree, DATA_FOLDER, ignore_errors=True)
os.environ["HANDOFFAUDIT_DATA"] = str(DATA_FOLDER)
# A database in memory is one connection: threads would see each other's transactions.
os.environ.setdefault("HANDOFFAUDIT_TEST_DATABASE", str(DATA_FOLDER / "tests.sqlite3"))
os.environ["HANDOFFAUDIT_SECRET_KEY"] = "a key of the tests that is long enough and protects nothing at all"
# No test may ask an LLM with that person's key.
for name in [name for name in os.environ if name.startswith(("ANTHROPIC_", "HANDOFFAUDIT_MODEL_"))]:
    del os.environ[name]
os.environ["DJANGO_SETTINGS_MODULE"] = "handoffaudit.settings"
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
if WORKER and (given := os.environ.get("REDIS_URL")):
    # The counts and wake-ups in one worker's Redis must not reach the tests of another.
    os.environ["REDIS_URL"] = url_of_worker(given, int(WORKER.removeprefix("gw")))

import django
import hypothesis
import psycopg
import pytest
import redis
from django.conf import settings
from django.db import connection
from django.test import TestCase
from pytest_django import DjangoDbBlocker

django.setup()
# The real password hasher takes 0.3 s per password.
settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

from handoffaudit.accounts import keys
from handoffaudit.accounts.models import Membership, Person, Role, Tenant
from handoffaudit.handoffs import counts
from tests import flush, migrated, static_files
from tests.api import answers
from tests.messages_api.server import MessagesServer, running
from tests.scale import examples

answers.install()
flush.install()
static_files.install()

# Whether an example is right does not depend on how busy the machine is.
hypothesis.settings.register_profile("untimed", deadline=None, max_examples=examples(100))
hypothesis.settings.load_profile("untimed")

PASSWORD = "correct horse battery staple"
REQUIRED = os.environ.get("HANDOFFAUDIT_TEST_SERVICES") == "required"
POSTGRES_URL = os.environ.get("HANDOFFAUDIT_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/postgres")
REDIS_URL = os.environ.get("HANDOFFAUDIT_TEST_REDIS", "redis://127.0.0.1:6379/15")
GROUPS = ("decisions in the browser", "pages in the browser", "services", "one product")
# The tests that take longest start first, so that no worker ends minutes before the others.
FIRST = (*GROUPS, "tests/running/", "tests/packaging/", "tests/cli/hooks/", "tests/surface/")
# These tests and the other browser tests take about as long, each with a product of their own.
DECISIONS = tuple(f"tests/browser/test_{name}.py" for name in ("along", "groups", "keyboard", "live", "review", "way"))
USING_PRODUCT = ("client", "connect", "mcp", "policy_cases", "serving")
SHARING_PRODUCT = tuple(f"tests/running/test_{name}.py" for name in USING_PRODUCT)
SHARING_REDIS = ("tests/resilience/", "tests/running/test_full_way.py", "tests/handoffs/test_long_poll.py")


def pytest_configure(config: pytest.Config) -> None:
    workers = getattr(config.option, "numprocesses", 0)
    if workers and not WORKER and (given := os.environ.get("REDIS_URL")):
        try:
            url_of_worker(given, workers - 1)
        except NoSuchDatabase as error:
            # In a worker, this error would be one of many.
            raise pytest.UsageError(str(error)) from error
    # Who ends a run that is beside others ends what it started, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Run the whole suite on every core.

    Chosen tests run in this process, which starts sooner, unless -n is given.
    """
    whole = config.args_source == pytest.Config.ArgsSource.TESTPATHS
    if whole and not WORKER and getattr(config.option, "numprocesses", 0) is None:
        config.option.numprocesses = "auto"
    if getattr(config.option, "numprocesses", 0) and not WORKER:
        # With this a worker would load the settings before this file names its own data folder and Redis.
        os.environ.pop("DJANGO_SETTINGS_MODULE", None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return a worker for each core and one more, because the tests of the groups often wait for other processes."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the tests of a file on one worker, and those of all files that share a server, a product or a browser.

    The scheduler counts all units after each test, which took a minute while each test was a unit. The marks of xdist
    for this (`xdist_group`) do nothing with pytest 9.2, which keeps ids of tests elsewhere.
    """
    from xdist.scheduler import LoadScopeScheduling

    class GroupScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return unit_of(nodeid)

        def _assign_work_unit(self, node: Any) -> None:
            # Otherwise the unit with the most tests is the next.
            self.workqueue.move_to_end(min(self.workqueue, key=turn_of), last=False)
            super()._assign_work_unit(node)

    return GroupScheduling(config, log)


def turn_of(unit: str) -> int:
    """Return the place of the unit in `FIRST`, or the number after all places."""
    return next((turn for turn, start in enumerate(FIRST) if unit.startswith(start)), len(FIRST))


def unit_of(nodeid: str) -> str:
    """Return the name of the unit whose tests run one after the other: a group, or a file."""
    if nodeid.startswith("tests/browser/"):
        return GROUPS[0] if nodeid.startswith(DECISIONS) else GROUPS[1]
    if nodeid.startswith(SHARING_REDIS) and not nodeid.endswith("[embedded]"):
        return GROUPS[2]
    if nodeid.startswith(SHARING_PRODUCT):
        return GROUPS[3]
    return nodeid.partition("::")[0]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Collect the tests without the garbage collector, which would look through millions of lasting objects."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


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
    """Return the path of the browser; use this fixture in tests marked `browser`."""
    return find_chromium()


@pytest.fixture(scope="session")
def postgres_url() -> str:
    """Return the URL of a PostgreSQL maintenance database.

    Use this fixture in tests marked `services`, and create the test's own database beside the maintenance database.
    """
    return POSTGRES_URL


@pytest.fixture(scope="session")
def redis_url() -> str:
    return REDIS_URL


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """Let Django use the database file that `migrated` copies; the file is removed with the data folder."""
    return connection.vendor == "sqlite"


@pytest.fixture(scope="session")
def django_db_setup(
    request: pytest.FixtureRequest,
    django_db_modify_db_settings_parallel_suffix: None,
    django_db_blocker: DjangoDbBlocker,
) -> None:
    if connection.vendor != "sqlite":
        with migrated.turn(), django_db_blocker.unblock():
            template = migrated.use_template()
            request.getfixturevalue("django_db_setup")
            migrated.keep_template(template)
        return
    with migrated.turn():
        migrated.copy_to(Path(connection.settings_dict["TEST"]["NAME"]))
        request.getfixturevalue("django_db_setup")
        with django_db_blocker.unblock():
            migrated.keep()


@pytest.fixture(scope="module")
def module_transaction(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Open a transaction around all tests of the module.

    Every test sees the rows that module fixtures add to the transaction, and each test undoes only its own changes.
    """
    with django_db_blocker.unblock():
        around = TestCase._enter_atomics()
        yield
        TestCase._rollback_atomics(around)


@pytest.fixture(autouse=True, scope="session")
def _no_late_threads() -> Iterator[None]:
    """Start neither the webhook worker nor the thread that stores the totals of the metrics: they outlive a test."""
    idle = SimpleNamespace(wake_senders=lambda: None, stop_senders=lambda: None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("handoffaudit.diagnostics.status.delivery", idle)
        patch.setattr("handoffaudit.handoffs.counts._schedule", lambda: None)
        yield


# Every test pays for this fixture, and `monkeypatch` would take most of its time.
@pytest.fixture(autouse=True)
def _nothing_earlier() -> None:
    """Forget totals and recorded refusals of the tests before: the keys of tests have the same ids again and again."""
    counts._pending_totals = Counter()
    keys._recorded = {}


@pytest.fixture
def _all_hours_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read hours of any age, for tests whose present is long ago; otherwise old periods are read in whole days."""
    for module in ("counts", "periods"):
        monkeypatch.setattr(f"handoffaudit.handoffs.{module}.HOURS_KEPT", timedelta(days=3650))


@pytest.fixture
def tenant(db: None) -> Tenant:
    return Tenant.objects.create(slug="acme", name="Acme")


@pytest.fixture
def other_tenant(db: None) -> Tenant:
    return Tenant.objects.create(slug="globex", name="Globex")


@pytest.fixture
def password() -> str:
    """Return the password of every person below."""
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
    """Return the administrator of another tenant, who has every right there and none in `tenant`."""
    return member(other_tenant, "stranger", Role.ADMIN)


@pytest.fixture(scope="session")
def messages_api() -> Iterator[MessagesServer]:
    with running() as server:
        yield server


@pytest.fixture
def model(messages_api: MessagesServer, settings) -> Iterator[MessagesServer]:
    """Set an API key, and let the real SDK ask a local server in place of the LLM.

    The server reports no findings unless the test scripts its answers. Each call has one try.
    """
    messages_api.reset()
    settings.ANTHROPIC_API_KEY = "sk-of-the-tests"
    settings.MODEL_BASE_URL = messages_api.url
    settings.MODEL_TRIES = 1
    settings.MODEL_SECONDS = 10
    yield messages_api
    messages_api.reset()
