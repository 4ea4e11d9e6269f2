"""The command `doctor`: checks of the settings, the environment and the servers of an installation."""

import importlib
import json
import os
import secrets
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Final

import click

from handoffaudit.cli.terminal import data_folder, data_option, example, json_option
from handoffaudit.process import OTHERS, PREFIX

SETTINGS: Final = "handoffaudit.settings"
# A wrong setting is set aside and the settings are read again, so that one run finds all wrong settings.
MOST_WRONG_SETTINGS: Final = 50
# Each key is a setting, and its value is a setting that depends on the key. If the key is wrong, both are set aside.
DEPENDENT: Final = {"DATABASE_URL": "DATABASE_REPLICA_URL"}
# Values that replace wrong values, so that the settings that need them are checked, too.
STAND_INS: Final = {"HANDOFFAUDIT_OIDC_ISSUER": "https://login.example.com"}


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    SKIPPED = "skipped"


COLOURS: Final = {Level.OK: "green", Level.WARNING: "yellow", Level.ERROR: "red", Level.SKIPPED: None}


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a check. `message` describes the state or the fault, and `fix` says what to do about a fault."""

    name: str
    level: Level
    message: str
    fix: str = ""


@dataclass(slots=True)
class Installation:
    """The installation that doctor checks. `wrong` names the settings whose values were refused and set aside.

    `is_loaded` says that Django could be loaded, which the other checks need. `folder_works` says that this user can
    use the data folder and what is stored there.
    """

    online: bool = False
    wrong: set[str] = field(default_factory=set)
    is_loaded: bool = False
    folder_works: bool = False
    database_works: bool = False


Check = Callable[[Installation], Iterable[Result]]


@click.command(name="doctor", epilog=example("handoffaudit doctor", "handoffaudit doctor --online --json"))
@click.option("--online", is_flag=True, help="Also ask the LLM one short question, which costs less than 0.01 USD.")
@click.option("--strict", is_flag=True, help="Exit with 1 if there are warnings, but no errors.")
@data_option
@json_option
def command(*, online: bool, strict: bool, as_json: bool) -> None:
    """Check settings, versions, database, broker, workers, clock, disk and permissions, and say what to do.

    Run the command on the machine of the server, with the server's environment. The command changes nothing, and exits
    with 2 if there is an error.
    """
    results = list(examine(Installation(online)))
    levels = [result.level for result in results]
    worst = next((level for level in (Level.ERROR, Level.WARNING) if level in levels), Level.OK)
    if as_json:
        click.echo(json.dumps({"status": worst, "checks": [asdict(result) for result in results]}))
    else:
        _print(results)
    sys.exit(2 if worst is Level.ERROR else int(strict and worst is Level.WARNING))


def _print(results: list[Result]) -> None:
    width = max(len(result.name) for result in results)
    for result in results:
        level = click.style(f"{result.level:<8}", fg=COLOURS[result.level])
        click.echo(f"{level} {result.name:<{width}}  {result.message}")
        if result.fix:
            click.echo(f"{'':<{width + 9}}  Fix: {result.fix}")
    numbers = [sum(one.level is level for one in results) for level in (Level.ERROR, Level.WARNING)]
    click.echo(f"{numbers[0]} error{'s' * (numbers[0] != 1)}, {numbers[1]} warning{'s' * (numbers[1] != 1)}.")


def examine(installation: Installation) -> Iterable[Result]:
    """Yield the results of all checks. The settings are read first, because the other checks need them."""
    yield from load_settings(installation)
    if not installation.is_loaded:
        return
    from handoffaudit.cli.doctor_checks import CHECKS

    for check in CHECKS:
        yield from _run(check, installation)


def name_check(check: Check) -> str:
    return check.__name__.removeprefix("check_").replace("_", " ")


def _run(check: Check, installation: Installation) -> list[Result]:
    name = name_check(check)
    try:
        return list(check(installation))
    except Exception as error:  # noqa: BLE001 -- a check that fails must not hide the results of the others
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return [Result(name, Level.ERROR, f"The check itself failed ({reason}).", "Report this as a bug.")]


def load_settings(installation: Installation) -> list[Result]:
    """Load Django with each wrong setting set aside, and return an error for each wrong setting.

    If an error names no setting, nothing can be set aside. This error is then the last one, and Django is not loaded.
    """
    from django.core.exceptions import ImproperlyConfigured
    from environs import EnvError

    _keep_folder_unchanged()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", SETTINGS)
    os.environ.setdefault("HANDOFFAUDIT_LOG_FORMAT", "text")
    os.environ.setdefault("HANDOFFAUDIT_LOG_LEVEL", "ERROR")
    found: list[Result] = []
    for _ in range(MOST_WRONG_SETTINGS):
        try:
            importlib.import_module(SETTINGS)
            break
        except (ImproperlyConfigured, EnvError) as error:
            message = " ".join(str(error).split())
            name = _find_name(message)
            if not name:
                return [*found, _describe_unnamed(error)]
            if isinstance(error, EnvError):
                # Only numbers and switches raise an `EnvError`, so the value is not a secret.
                message = f"{message} The value is {os.environ[name]!r}."
            found.append(Result("settings", Level.ERROR, message, f"Correct {name}, or unset it."))
            installation.wrong.add(name)
            del os.environ[name]
            os.environ.pop(DEPENDENT.get(name, ""), None)
            if name in STAND_INS:
                os.environ[name] = STAND_INS[name]
    import django

    try:
        django.setup()
    except ImproperlyConfigured as error:
        return [*found, _describe_unnamed(error)]
    installation.is_loaded = True
    return found


def _describe_unnamed(error: Exception) -> Result:
    """Return the result for an error that names no setting."""
    message = f"{' '.join(str(error).split()).rstrip('.')}. Nothing else was checked."
    return Result("settings", Level.ERROR, message, "Correct this, and run doctor again.")


def _find_name(message: str) -> str:
    """Return the setting that the message names, or an empty text."""
    names = [name for name in os.environ if name.startswith(PREFIX) or name in OTHERS]
    return next((name for name in sorted(names, key=len, reverse=True) if name in message), "")


def _keep_folder_unchanged() -> None:
    """Set a secret key for this process if none can be read, because the settings would create the key's file."""
    try:
        (data_folder() / "secret-key").read_text()
    except (OSError, ValueError):
        os.environ.setdefault("HANDOFFAUDIT_SECRET_KEY", secrets.token_urlsafe(50))
