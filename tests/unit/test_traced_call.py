"""The path of one HTTP call through the code: how many functions and modules, and how straight."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COUNT = """
import sys
from bench import trace
found = trace.count(trace.trace(trace.MODERN, policy=sys.argv[1] == "policy"))
print(found.functions, found.modules, found.returns)
"""


@pytest.mark.parametrize("kind", ["bare", "policy"])
def test_a_call_takes_no_more_functions_modules_and_returns_than_before(kind: str) -> None:
    from bench.trace import MOST

    done = subprocess.run(  # a process of its own: the profile function is that of the thread
        [sys.executable, "-c", COUNT, kind], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    functions, modules, returns = map(int, done.stdout.split())
    most = MOST[kind == "policy"]
    assert functions <= most.functions, "run: python -m bench.trace --policy"
    assert modules <= most.modules
    assert returns <= most.returns


def test_the_page_shows_the_call_without_a_policy_and_with_one() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    for part in ("trace", "trace with a policy"):
        shown = page.partition(f"<!-- {part}: ")[2].partition(f"<!-- end of {part} -->")[0]
        assert "`Dispatcher._perform`" in shown, "run: python dev.py map"
        assert ("`Guard.__call__`" in shown) is ("policy" in part)
