"""`python -m handoffaudit` is the command line too."""

from handoffaudit.cli.main import main

main()
