"""Tests that the examples in docs/library.md run."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "library.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_the_examples_run_one_after_the_other() -> None:
    blocks = BLOCK.findall(PAGE.read_text())
    assert len(blocks) >= 8
    names: dict[str, object] = {"__name__": "examples"}
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"docs/library.md, block {number}", "exec"), names)  # noqa: S102
