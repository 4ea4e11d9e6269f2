"""Tests that the core loads no framework, and loads a tokenizer and pydantic models only on use."""

import subprocess
import sys

PROBE = """
import sys
import handoffaudit.validation.pipeline, handoffaudit.validation.json_text, handoffaudit.validation.formats
roots = {name.partition(".")[0] for name in sys.modules}
print(sorted(roots & {"django", "ninja", "celery", "redis", "psycopg", "httpx", "splintr", "pydantic"}))
"""


def test_the_core_loads_no_framework() -> None:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.strip() == "[]"


# A log goes to a server in parts, for which no Django is set up.
SEND_LOG = """
from handoffaudit.cli.import_log import ServerLogReceiver
ServerLogReceiver._send_part = lambda *_: None
ServerLogReceiver.send(object.__new__(ServerLogReceiver), "app.log", [b"line"], lambda _: None)
"""


def test_what_commands_without_a_database_load_is_no_more() -> None:
    loaded = f"import handoffaudit.cli.validate, handoffaudit.cli.local_verdicts{SEND_LOG}"
    done = subprocess.run(
        [sys.executable, "-c", loaded + PROBE], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.strip() == "[]"
