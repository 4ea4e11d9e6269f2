"""Snapshots of the commands, their flags and their exit codes."""

from typing import Any

import click

from handoffaudit.cli.main import command
from tests.surface.snapshots import check


def describe(parameter: click.Parameter) -> dict[str, Any]:
    kind = parameter.type
    told: dict[str, Any] = {"type": kind.name}
    if isinstance(kind, click.Choice):
        told["choices"] = list(kind.choices)
    told |= {name: bound for name in ("min", "max") if (bound := getattr(kind, name, None)) is not None}
    if isinstance(parameter, click.Option):
        given = {"flag": parameter.is_flag, "repeatable": parameter.multiple, "hidden": parameter.hidden}
        default = parameter.to_info_dict()["default"]
        given["default"] = default if isinstance(default, str | int | float | list) else None
    else:
        given = {"values": parameter.nargs}
    given |= {"required": parameter.required, "environment": parameter.envvar}
    return told | {name: value for name, value in given.items() if value not in (None, False)}


def tree(one: click.Command) -> dict[str, Any]:
    told: dict[str, Any] = {
        "parameters": {
            " ".join([*parameter.opts, *parameter.secondary_opts]): describe(parameter) for parameter in one.params
        }
    }
    if isinstance(one, click.Group):
        context = click.Context(one)
        found = {name: one.get_command(context, name) for name in one.list_commands(context)}
        told["commands"] = {name: tree(child) for name, child in found.items() if child}
    return told


def test_commands_and_their_flags() -> None:
    check("commands", tree(command))
