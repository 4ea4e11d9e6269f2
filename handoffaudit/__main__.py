"""The command line as `python -m handoffaudit`."""

from handoffaudit.cli.main import main

main()
