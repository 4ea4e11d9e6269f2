"""A web process for the tests: `python -m tests.resilience.serve PORT ADDRESS`."""

import sys

from granian.constants import HTTPModes, Interfaces
from granian.server import Server

if __name__ == "__main__":
    Server(
        "handoffaudit.wsgi:application",
        address=sys.argv[2],
        port=int(sys.argv[1]),
        interface=Interfaces.WSGI,
        workers=1,
        blocking_threads=32,
        http=HTTPModes.http1,
        websockets=False,
        workers_kill_timeout=2,
    ).serve()
