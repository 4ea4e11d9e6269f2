"""Options of the commands that judge files here."""

import click

# Written out, since to ask the core for them would load it for --help; a test holds them against it.
FORMATS = ("universal", "output", "payload", "claude-code", "delegation", "handoff-file")
format_option = click.option(
    "--format", "form", type=click.Choice(FORMATS), help="The documents are bare, and in this format."
)
strictness_option = click.option(
    "--type-policy", type=click.Choice(["strict", "lenient"]), help="Judge every type as strict, or as lenient."
)
policy_option = click.option(
    "--policy",
    metavar="FILE",
    multiple=True,
    help="Judge by this policy, as GET /api/v1/strictness, /rules, /schemas or /prompts answers it; once for each.",
)
root_option = click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    help="Where the files that documents refer to lie. Default: the folder of each FILE.",
)
skills_option = click.option(
    "--skills",
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    help="Warn of targets that none of the skills (SKILL.md) in this folder is called.",
)
