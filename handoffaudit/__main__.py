"""The command line as `python -m handoffaudit`."""

from handoffaudit.cli.main import main

if __name__ == "__main__":
    main()
