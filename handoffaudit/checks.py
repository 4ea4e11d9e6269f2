"""System checks for settings that are unsafe or lose work. Each check says what to set."""

import difflib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register  # noqa: A004
from django.http.request import split_domain_port

from handoffaudit.accounts import Refused, single_sign_on
from handoffaudit.process import PREFIX
from handoffaudit.trust import signatures

TAG = "handoffaudit"
LOOPBACK = {"localhost", "127.0.0.1", "[::1]", "testserver"}
SECRET_LENGTH, SECRET_VARIETY = 32, 10
PROCESS_VARIABLES = ("GRANIAN_WORKERS", "WEB_CONCURRENCY")
FOR_TESTS = f"{PREFIX}TEST_"


def _on_sqlite() -> bool:
    return bool(settings.DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3")


def _public_hosts() -> list[str]:
    return [host for host in settings.ALLOWED_HOSTS if host not in LOOPBACK]


@register(TAG)
def debug_in_public(**_: object) -> list[CheckMessage]:
    if not settings.DEBUG or not (_public_hosts() or settings.PUBLIC_URL):
        return []
    return [
        Error(
            "HANDOFFAUDIT_DEBUG is on while other machines may call this server: error pages show them source code and"
            " variables.",
            hint="Unset HANDOFFAUDIT_DEBUG.",
            id="handoffaudit.E001",
        )
    ]


@register(TAG)
def wrong_seal_key(**_: object) -> list[CheckMessage]:
    if not signatures.is_set():
        return []
    try:
        signatures.find_key(settings.DATA_FOLDER)
    except signatures.WrongKey as wrong:
        hint = f"Set {signatures.VARIABLE} to the key of the other processes, or unset it."
        return [Error(str(wrong), hint=hint, id="handoffaudit.E023")]
    return []


@register(TAG)
def weak_secret_key(**_: object) -> list[CheckMessage]:
    key = settings.SECRET_KEY
    if len(key) >= SECRET_LENGTH and len(set(key)) >= SECRET_VARIETY:
        return []
    return [
        Error(
            f"HANDOFFAUDIT_SECRET_KEY can be guessed: it has {len(key)} characters, {len(set(key))} different ones.",
            hint="Set it to what this prints: python3 -c 'import secrets; print(secrets.token_urlsafe(50))'",
            id="handoffaudit.E002",
        )
    ]


def _split(url: str) -> SplitResult:
    """Return the parts of an address. A malformed address has no parts."""
    try:
        parts = urlsplit(url)
        # Reading the port checks the port, too.
        _ = parts.port
    except ValueError:
        return urlsplit("")
    return parts


@register(TAG)
def public_url_is_usable(**_: object) -> list[CheckMessage]:
    url = settings.PUBLIC_URL
    if not url:
        return []
    parts = _split(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.path.strip("/"):
        return [
            Error(
                f"HANDOFFAUDIT_PUBLIC_URL is {url!r}, which is not the address of a server.",
                hint="Write scheme and host alone, e.g. https://audit.example.com.",
                id="handoffaudit.E003",
            )
        ]
    # This error waits until E024 (`hosts_are_names`) is fixed: the corrected entry may be the host that is missing.
    if not hosts_are_names() and not any(_fits(parts.hostname, host) for host in settings.ALLOWED_HOSTS):
        return [
            Error(
                f"HANDOFFAUDIT_PUBLIC_URL names {parts.hostname}, which HANDOFFAUDIT_ALLOWED_HOSTS does not list:"
                " every request would be refused.",
                hint=f"Add {parts.hostname} to HANDOFFAUDIT_ALLOWED_HOSTS.",
                id="handoffaudit.E004",
            )
        ]
    return []


def _fits(name: str, pattern: str) -> bool:
    if pattern.startswith("."):
        return name.endswith(pattern) or name == pattern[1:]
    return pattern in {"*", name, f"[{name}]"}


@register(TAG)
def hosts_are_names(**_: object) -> list[CheckMessage]:
    """Find allowed hosts that no request can match, because Django compares only the host name, without the port."""
    return [
        Error(
            f"HANDOFFAUDIT_ALLOWED_HOSTS has {host!r}, which is not the name of a host: it matches no request.",
            hint="Write the name alone, without scheme, port and path: audit.example.com, .example.com (with all names"
            " below it), or [::1].",
            id="handoffaudit.E024",
        )
        # An empty entry, such as after an extra comma, does no harm if there is another entry.
        for host in list(filter(None, settings.ALLOWED_HOSTS)) or [""]
        if host != "*" and (not host or split_domain_port(host) != (host.lower(), ""))
    ]


@register(TAG)
def any_host(**_: object) -> list[CheckMessage]:
    if "*" not in settings.ALLOWED_HOSTS:
        return []
    return [
        Warning(
            "HANDOFFAUDIT_ALLOWED_HOSTS has *: a page of another site could call this server in a person's name.",
            hint="Name the hosts under which the server is called.",
            id="handoffaudit.W005",
        )
    ]


@register(TAG)
def public_without_https(**_: object) -> list[CheckMessage]:
    parts = _split(settings.PUBLIC_URL)
    if parts.scheme != "http" or parts.hostname in {"localhost", "127.0.0.1"}:
        return []
    return [
        Warning(
            f"HANDOFFAUDIT_PUBLIC_URL is {settings.PUBLIC_URL}: passwords and API keys travel unencrypted.",
            hint="Put a proxy with a certificate in front, and write the address with https://.",
            id="handoffaudit.W006",
        )
    ]


@register(TAG)
def several_processes_on_sqlite(**_: object) -> list[CheckMessage]:
    many = [
        name
        for name in PROCESS_VARIABLES
        if os.environ.get(name, "1").isdecimal() and int(os.environ.get(name, "1")) > 1
    ]
    if not _on_sqlite():
        return []
    return [
        Warning(
            f"{name} is {os.environ[name]} with an SQLite database: the processes wait for each other's writes.",
            hint=f"Set {name} to 1, or DATABASE_URL to a PostgreSQL database.",
            id="handoffaudit.W007",
        )
        for name in many
    ]


@register(TAG)
def redis_with_sqlite(**_: object) -> list[CheckMessage]:
    if not settings.REDIS_URL or not _on_sqlite():
        return []
    return [
        Warning(
            "REDIS_URL is set, but the database is an SQLite file: workers on other machines can't reach it.",
            hint="Set DATABASE_URL to a PostgreSQL database, or unset REDIS_URL.",
            id="handoffaudit.W008",
        )
    ]


@register(TAG)
def postgresql_without_redis(**_: object) -> list[CheckMessage]:
    if settings.REDIS_URL or _on_sqlite():
        return []
    return [
        Warning(
            "DATABASE_URL is a PostgreSQL database, but REDIS_URL is not set: only workers on this machine are woken"
            " immediately, and failed sign-ins are counted in each process by itself.",
            hint="Set REDIS_URL, e.g. redis://127.0.0.1:6379/0.",
            id="handoffaudit.W009",
        )
    ]


@register(TAG)
def single_sign_on_is_usable(**_: object) -> list[CheckMessage]:
    """Check the settings of sign-in with OpenID Connect, without asking the provider."""
    found = list(_oidc_flaws()) if settings.OIDC_ISSUER else []
    if not settings.PASSWORD_SIGN_IN and not settings.OIDC_ISSUER:
        found.append(
            Error(
                "HANDOFFAUDIT_PASSWORD_SIGN_IN is off and HANDOFFAUDIT_OIDC_ISSUER is not set: nobody could sign in.",
                hint="Set HANDOFFAUDIT_OIDC_ISSUER, or unset HANDOFFAUDIT_PASSWORD_SIGN_IN.",
                id="handoffaudit.E010",
            )
        )
    return found


def _oidc_flaws() -> Iterator[CheckMessage]:
    issuer = urlsplit(settings.OIDC_ISSUER)
    if issuer.scheme == "http" and issuer.hostname not in LOOPBACK | {"::1"}:
        yield Error(
            f"HANDOFFAUDIT_OIDC_ISSUER is {settings.OIDC_ISSUER}: secrets and tokens would travel unencrypted.",
            hint="Write the address with https://.",
            id="handoffaudit.E011",
        )
    if not settings.OIDC_CLIENT_ID:
        yield Error(
            "HANDOFFAUDIT_OIDC_ISSUER is set, but HANDOFFAUDIT_OIDC_CLIENT_ID is not.",
            hint="Register the server at the provider, and set HANDOFFAUDIT_OIDC_CLIENT_ID.",
            id="handoffaudit.E012",
        )
    if bool(settings.OIDC_ROLE_CLAIM) != bool(settings.OIDC_ROLES):
        yield Error(
            "HANDOFFAUDIT_OIDC_ROLE_CLAIM and HANDOFFAUDIT_OIDC_ROLES need each other: one names the claim, the other"
            " the roles for its values.",
            hint="Set both, or neither.",
            id="handoffaudit.E013",
        )
    yield from _role_flaws()


def _role_flaws() -> Iterator[CheckMessage]:
    wrong = []
    for text in single_sign_on.list_grants():
        try:
            single_sign_on.parse_grant(text)
        except Refused as refused:
            wrong.append(refused.message)
    if wrong:
        hint = "Correct HANDOFFAUDIT_OIDC_ROLES or HANDOFFAUDIT_OIDC_DEFAULT_ROLE."
        yield from (Error(message, hint=hint, id="handoffaudit.E014") for message in wrong)
        return
    if settings.OIDC_DEFAULT_ROLE and not settings.OIDC_ALLOWED_DOMAINS:
        yield Warning(
            "With HANDOFFAUDIT_OIDC_DEFAULT_ROLE, everybody with an account at the provider can sign in.",
            hint="Name your domains in HANDOFFAUDIT_OIDC_ALLOWED_DOMAINS, unless only your people have accounts there.",
            id="handoffaudit.W015",
        )
    if not single_sign_on.list_grants():
        yield Warning(
            "HANDOFFAUDIT_OIDC_ISSUER is set, but no role is: nobody new can sign in through the provider.",
            hint="Set HANDOFFAUDIT_OIDC_ROLE_CLAIM and HANDOFFAUDIT_OIDC_ROLES, or HANDOFFAUDIT_OIDC_DEFAULT_ROLE.",
            id="handoffaudit.W016",
        )


def known_names() -> set[str]:
    """Return the environment variables that `docs/settings.md` names, also those without the prefix (`REDIS_URL`)."""
    page: Path = settings.WEB / "docs" / "settings.md"
    return set(re.findall(r"`([A-Z]+(?:_[A-Z]+)+)`", page.read_text()))


@register(TAG)
def unknown_names(**_: object) -> list[CheckMessage]:
    given = sorted(name for name in os.environ if name.startswith(PREFIX) and not name.startswith(FOR_TESTS))
    known = known_names() if given else set()
    return [
        Warning(
            f"{name} is set, and there is no such setting: it has no effect.",
            hint=_suggest(name, known),
            id="handoffaudit.W020",
        )
        for name in given
        if name not in known
    ]


def _suggest(name: str, known: set[str]) -> str:
    # The prefix, which most names share, would make all of them similar.
    ends = {one.removeprefix(PREFIX): one for one in sorted(known)}
    close = difflib.get_close_matches(name.removeprefix(PREFIX), ends, n=1)
    if not close:
        return f"Unset {name}. The page Settings of the help lists all names."
    return f"Use {ends[close[0]]}, or unset {name}."


@register(TAG)
def proxy_without_public_url(**_: object) -> list[CheckMessage]:
    if not settings.SECURE_PROXY_SSL_HEADER or settings.PUBLIC_URL:
        return []
    return [
        Warning(
            "HANDOFFAUDIT_BEHIND_PROXY is on, but HANDOFFAUDIT_PUBLIC_URL is not set: cookies are not limited to HTTPS,"
            " no origin is trusted beside the server's own, and links in webhooks and answers name no server.",
            hint="Set HANDOFFAUDIT_PUBLIC_URL to the address that people use, e.g. https://audit.example.com.",
            id="handoffaudit.W021",
        )
    ]


@register(TAG)
def https_without_proxy(**_: object) -> list[CheckMessage]:
    if not settings.PUBLIC_URL.startswith("https://") or settings.SECURE_PROXY_SSL_HEADER:
        return []
    return [
        Warning(
            f"HANDOFFAUDIT_PUBLIC_URL is {settings.PUBLIC_URL}, but HANDOFFAUDIT_BEHIND_PROXY is off: failed sign-ins"
            " are counted by the address of the proxy, so one person can lock out everybody.",
            hint="Set HANDOFFAUDIT_BEHIND_PROXY=true if the proxy sets X-Forwarded-Proto and X-Forwarded-For.",
            id="handoffaudit.W022",
        )
    ]
