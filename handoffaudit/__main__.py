"""`python -m handoffaudit` is the command line too."""

from handoffaudit.cli import main

main()
