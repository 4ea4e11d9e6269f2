"""The command line: `main` has the entry point, and each command is a module."""
