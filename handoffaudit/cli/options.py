"""Options that several commands share."""

import os
from pathlib import Path

import click

DATABASE_FILE = "handoffaudit.sqlite3"


def _use_folder(_: click.Context, __: click.Parameter, value: str | None) -> None:
    if value is not None:
        os.environ["HANDOFFAUDIT_DATA"] = value


# Takes effect through the environment, since settings are read once, when Django starts.
data_option = click.option(
    "--data",
    metavar="DIR",
    expose_value=False,
    callback=_use_folder,
    help="The data folder of the embedded way. Default: HANDOFFAUDIT_DATA, else a folder of your user account.",
)
tenant_option = click.option("--tenant", default="default", show_default=True, metavar="SLUG", help="Whose data.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output.")


def example(*lines: str) -> str:
    """The epilog of a click command that shows examples."""
    return "\b\n" + "\n".join(["Example:" if len(lines) == 1 else "Examples:", *(f"  {one}" for one in lines)])


def data_folder() -> Path:
    """As the settings have it, without loading them."""
    given = os.environ.get("HANDOFFAUDIT_DATA")
    return Path(given).expanduser().absolute() if given else usual_data_folder()


def usual_data_folder() -> Path:
    return Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser().absolute() / "handoffaudit"
