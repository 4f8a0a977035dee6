"""The table of requirements is complete and true."""

from __future__ import annotations

from tests.requirements.inventory import HELD, TABLE, collect_ids, render


def test_every_requirement_that_holds_has_a_test() -> None:
    found = collect_ids()
    missing = [identifier for identifier in HELD if identifier not in found]
    assert not missing, f"no test is marked with {', '.join(missing)}"


def test_the_table_in_the_docs_is_what_the_tests_say() -> None:
    assert TABLE.read_text() == render(), "run `python tests/requirements/inventory.py`"
