"""Code of a test with Django loaded: `python -m tests.resilience.snippet CODE`."""

import sys

import django

if __name__ == "__main__":
    django.setup()
    exec(sys.argv[1], {"__name__": "__main__"})  # noqa: S102 -- the code of a test
