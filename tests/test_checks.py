from pathlib import Path

import pytest

from handoffaudit import checks
from handoffaudit.accounts import single_sign_on

GOOD = "k7Jd0sWq-3hXz9_bNvR2mTfY5pLcA8eUgQ1oIiD4"
POSTGRES = {"default": {"ENGINE": "django.db.backends.postgresql"}}
SQLITE = {"default": {"ENGINE": "django.db.backends.sqlite3"}}
SAFE = {
    "DEBUG": False,
    "SECRET_KEY": GOOD,
    "ALLOWED_HOSTS": ["localhost"],
    "PUBLIC_URL": "",
    "REDIS_URL": "",
    "DATABASES": SQLITE,
    "SECURE_PROXY_SSL_HEADER": None,
    "WEB": Path(__file__).parents[1],
    "OIDC_ISSUER": "",
    "OIDC_ROLE_CLAIM": "",
    "OIDC_ROLES": {},
    "OIDC_DEFAULT_ROLE": "",
    "OIDC_ALLOWED_DOMAINS": [],
    "PASSWORD_SIGN_IN": True,
}
OIDC = {
    "OIDC_ISSUER": "https://login.example.com",
    "OIDC_CLIENT_ID": "handoffaudit",
    "OIDC_ROLE_CLAIM": "groups",
    "OIDC_ROLES": {"crew": ["reviewer", "viewer@acme"]},
}
PROXY = {"SECURE_PROXY_SSL_HEADER": ("HTTP_X_FORWARDED_PROTO", "https")}

UNSAFE = [
    ("E001", {"DEBUG": True, "ALLOWED_HOSTS": ["audit.example.com"]}),
    ("E001", {"DEBUG": True, "PUBLIC_URL": "http://localhost:8000"}),
    ("E002", {"SECRET_KEY": "short"}),
    ("E002", {"SECRET_KEY": "a" * 60}),
    ("E003", {"PUBLIC_URL": "audit.example.com"}),
    ("E003", {"PUBLIC_URL": "https://audit.example.com/path", **PROXY}),
    ("E003", {"PUBLIC_URL": "http://[::1"}),
    ("E003", {"PUBLIC_URL": "http://localhost:99999"}),
    ("E004", {"PUBLIC_URL": "https://audit.example.com", **PROXY}),
    ("E024", {"ALLOWED_HOSTS": ["localhost", "https://audit.example.com"]}),
    ("E024", {"ALLOWED_HOSTS": ["audit.example.com:8000"]}),
    ("E024", {"ALLOWED_HOSTS": ["audit.example.com/path"]}),
    ("E024", {"ALLOWED_HOSTS": ["*.example.com"]}),
    ("E024", {"ALLOWED_HOSTS": ["::1"]}),
    ("E024", {"ALLOWED_HOSTS": ["", ""]}),
    ("E024", {"ALLOWED_HOSTS": ["audit.example.com:443"], "PUBLIC_URL": "https://audit.example.com", **PROXY}),
    ("W005", {"ALLOWED_HOSTS": ["*"]}),
    ("W006", {"PUBLIC_URL": "http://audit.example.com", "ALLOWED_HOSTS": ["audit.example.com"]}),
    ("W008", {"REDIS_URL": "redis://localhost"}),
    ("W009", {"DATABASES": POSTGRES}),
    ("W021", PROXY),
    ("W022", {"PUBLIC_URL": "https://audit.example.com", "ALLOWED_HOSTS": ["audit.example.com"]}),
    ("E010", {"PASSWORD_SIGN_IN": False}),
    ("E011", OIDC | {"OIDC_ISSUER": "http://login.example.com"}),
    ("E012", OIDC | {"OIDC_CLIENT_ID": ""}),
    ("E013", OIDC | {"OIDC_ROLES": {}, "OIDC_DEFAULT_ROLE": "viewer", "OIDC_ALLOWED_DOMAINS": ["example.com"]}),
    ("E014", OIDC | {"OIDC_ROLES": {"crew": ["owner"]}}),
    ("E014", OIDC | {"OIDC_DEFAULT_ROLE": "viewer@a b", "OIDC_ALLOWED_DOMAINS": ["example.com"]}),
    ("W015", OIDC | {"OIDC_DEFAULT_ROLE": "viewer"}),
    ("W016", OIDC | {"OIDC_ROLE_CLAIM": "", "OIDC_ROLES": {}}),
]
SOUND = [
    {},
    {"DEBUG": True},
    {"DATABASES": POSTGRES, "REDIS_URL": "redis://localhost"},
    {"PUBLIC_URL": "https://audit.example.com", "ALLOWED_HOSTS": [".example.com"], **PROXY},
    {"PUBLIC_URL": "http://localhost:8000"},
    {"ALLOWED_HOSTS": ["localhost", "127.0.0.1", "[::1]", "Audit.example.com", ".example.com"]},
    OIDC,
    OIDC | {"PASSWORD_SIGN_IN": False, "OIDC_DEFAULT_ROLE": "viewer@acme", "OIDC_ALLOWED_DOMAINS": ["example.com"]},
    OIDC | {"OIDC_ISSUER": "http://localhost:8080/realms/acme"},
]


def found(monkeypatch, **changed) -> list[str]:
    # Plain attributes: overriding DATABASES for real would take the tests' own database away.
    given = type("Settings", (), SAFE | changed)
    monkeypatch.setattr(checks, "settings", given)
    monkeypatch.setattr(single_sign_on, "settings", given)
    every = [
        *(
            checks.debug_in_public,
            checks.weak_secret_key,
            checks.public_url_is_usable,
            checks.any_host,
            checks.hosts_are_names,
        ),
        *(checks.public_without_https, checks.several_processes_on_sqlite, checks.redis_with_sqlite),
        *(checks.postgresql_without_redis, checks.single_sign_on_is_usable, checks.unknown_names),
        *(checks.proxy_without_public_url, checks.https_without_proxy),
    ]
    messages = [message for check in every for message in check()]
    assert all(message.hint for message in messages)
    return [message.id.removeprefix("handoffaudit.") for message in messages]


@pytest.mark.parametrize(("code", "changed"), UNSAFE)
def test_unsafe_settings_are_found(monkeypatch, code, changed):
    assert found(monkeypatch, **changed) == [code]


@pytest.mark.parametrize("changed", SOUND)
def test_sound_settings_pass(monkeypatch, changed):
    assert found(monkeypatch, **changed) == []


def test_several_web_processes_on_sqlite_are_found(monkeypatch):
    monkeypatch.setenv("GRANIAN_WORKERS", "4")
    assert found(monkeypatch) == ["W007"]
    assert found(monkeypatch, DATABASES=POSTGRES, REDIS_URL="redis://localhost") == []


def test_a_host_that_matches_no_request_is_named(monkeypatch):
    monkeypatch.setattr(
        checks, "settings", type("Settings", (), {"ALLOWED_HOSTS": ["localhost", "audit.example.com:8000"]})
    )
    (message,) = checks.hosts_are_names()
    assert "'audit.example.com:8000'" in message.msg
    assert "without scheme, port and path" in message.hint


def test_unknown_names_are_found_with_the_closest_known_name(monkeypatch):
    for end in ("SECRETKEY", "SPAGHETTI", "TEST_SPAGHETTI", "DATABASE_URL", "REDIS_URL", "DATA_DIR"):
        monkeypatch.setenv(f"HANDOFFAUDIT_{end}", "x")
    monkeypatch.setenv("HANDOFFAUDIT_VERSION", "0.1.0")
    monkeypatch.setattr(checks, "settings", type("Settings", (), SAFE))
    assert [(one.id, one.hint.partition(",")[0]) for one in checks.unknown_names()] == [
        ("handoffaudit.W020", "Use DATABASE_URL"),
        ("handoffaudit.W020", "Use HANDOFFAUDIT_DATA"),
        ("handoffaudit.W020", "Use REDIS_URL"),
        ("handoffaudit.W020", "Use HANDOFFAUDIT_SECRET_KEY"),
        ("handoffaudit.W020", "Unset HANDOFFAUDIT_SPAGHETTI. The page Settings of the help lists all names."),
    ]


def test_they_are_registered():
    from django.core.checks.registry import registry

    names = {check.__name__ for check in registry.get_checks() if checks.TAG in check.tags}
    assert {"debug_in_public", "weak_secret_key", "redis_with_sqlite"} <= names


def test_a_wrong_seal_key_is_found(monkeypatch):
    monkeypatch.setenv("HANDOFFAUDIT_SEAL_KEY", "abc")
    (message,) = checks.wrong_seal_key()
    assert message.id == "handoffaudit.E023"
    assert "HANDOFFAUDIT_SEAL_KEY" in message.hint
    monkeypatch.setenv("HANDOFFAUDIT_SEAL_KEY", "YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE=")
    assert not checks.wrong_seal_key()
