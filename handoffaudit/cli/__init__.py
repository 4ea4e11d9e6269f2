"""The command line: `main` has the commands, and each command is a module."""
