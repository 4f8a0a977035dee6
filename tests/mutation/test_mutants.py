"""The mutants of mutation testing, and the list of accepted survivors."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutation.__main__ import GROUPS, accepted, files_of, module_of
from tests.mutation.mutants import mutants_of


@pytest.mark.parametrize("group", GROUPS)
def test_the_files_of_a_group_exist(group: str) -> None:
    sources, tests = GROUPS[group]
    root = Path(__file__).resolve().parents[2]
    assert [pattern for pattern in sources if not list((root / "src/toolcrib").glob(pattern))] == []
    assert [path for path in tests if not (root / path).exists()] == []


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("x = a < b", ["x = a <= b"]),
        ("x = a in b", ["x = a not in b"]),
        ("x = a and b", ["x = a or b"]),
        ("x = not a", ["x = a"]),
        ("x = a + 1", ["x = a - 1", "x = a + 2"]),
        ("x = 'a'", ["x = 'XXa'"]),
        ("x = f(a, b, c=d)", ["x = f(b, a, c=d)", "x = f(a, b)"]),
        ("x = f(a, a)", []),
        ("x = isinstance(a, b)", []),
        ("a.b = c", ["pass"]),
        ("x += a", ["pass", "x -= a"]),
        ("f()", ["pass"]),
        ("raise a", ["pass"]),
        ("while a:\n    break", ["while not a:\n    break", "while a:\n    continue"]),
        ("def f(a=1): return a", ["def f(a=2):\n    return a", "def f(a=1):\n    return"]),
        ("class A:\n    'Words.'\n    __slots__ = ('a',)\n    b: int | None = None", []),
    ],
)
def test_each_mistake_is_made_once_and_alone(source: str, wrong: list[str]) -> None:
    assert [ast.unparse(mutant.tree()) for mutant in mutants_of(source)] == wrong


def test_a_mutant_has_a_name_that_lines_above_it_do_not_change() -> None:
    source = "def f(a):\n    return a == 1 or a == 1\n"
    names = [mutant.name for mutant in mutants_of(source)]
    assert "f: a == 1 -> a != 1" in names
    assert "f: a == 1 -> a != 1 #2" in names
    assert [mutant.name for mutant in mutants_of(f"import os\n\n{source}")] == names


def test_what_is_made_at_import_is_told_from_what_is_done_at_a_call() -> None:
    found = {
        mutant.name: mutant.is_inside for mutant in mutants_of("A = 1\ndef f(a=2):\n    return lambda b=3: 4")
    }
    assert {name.partition(": ")[2]: inside for name, inside in found.items() if "return" not in name} == {
        "1 -> 2": False,
        "2 -> 3": False,
        "3 -> 4": True,
        "4 -> 5": True,
    }


def test_accepted_survivors_are_listed_by_modules_that_are_mutated() -> None:
    assert accepted().keys() <= {module_of(path) for group in GROUPS for path in files_of(group)}


@pytest.mark.parametrize("group", GROUPS)
def test_every_survivor_that_is_accepted_is_a_mutant_there_is(group: str) -> None:
    reasons = accepted()
    for path in files_of(group):
        if names := reasons.get(module_of(path), {}).keys():
            assert names <= {mutant.name for mutant in mutants_of(path.read_text())}
