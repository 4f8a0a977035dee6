"""The fifty sample functions, and as many plain ones as a measurement needs.

The samples are what the sizes are compared on. The plain ones are written out as a real module, so that
every function is distinct, has a file and a line, and costs its import outside the measurement.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

SAMPLES = ("bench.samples.google", "bench.samples.numpy", "bench.samples.rest")

_HEAD = '''"""Made by bench/functions.py."""

from __future__ import annotations

from typing import Literal
'''

_BODY = '''

async def tool_{number}({signature}) -> {returns}:
    """{verb} the {noun} number {number}.

    The work is done for {noun} {number} alone; others are left as they are.

    Args:
{arguments}

    Returns:
        What became of the {noun}, {verb} having been asked for.
    """
    return {result}
'''

# verb, noun, parameters (name, hint with default, words), return type, what the body returns, arguments
_KINDS: tuple[tuple[str, str, tuple[tuple[str, str, str], ...], str, str, dict[str, Any]], ...] = (
    (
        "Fetch",
        "parcel",
        (
            ("code", "str", "Tracking code on the label."),
            ("depth", "int = 3", "How many stations back."),
            ("exact", "bool = False", "Whether nearby codes count."),
        ),
        "str",
        "code",
        {"code": "A1", "depth": 2, "exact": True},
    ),
    (
        "Weigh",
        "crate",
        (
            ("crate", "int", "Number of the crate."),
            ("tare", "float = 0.0", "Weight of the empty crate in kilograms."),
            ("unit", 'Literal["kg", "lb"] = "kg"', "Unit of the answer."),
        ),
        "float",
        "crate - tare",
        {"crate": 7, "tare": 1.5, "unit": "kg"},
    ),
    (
        "Label",
        "shelf",
        (
            ("shelf", "str", "Row and column of the shelf."),
            ("words", "list[str]", "What to print, one entry a line."),
            ("colour", "str | None = None", "Colour of the sticker, white if missing."),
        ),
        "list[str]",
        "words",
        {"shelf": "B4", "words": ["a", "b"], "colour": None},
    ),
    (
        "Count",
        "pallet",
        (
            ("pallet", "str", "Code of the pallet."),
            ("by", "dict[str, int]", "Articles and how many are expected."),
            ("recount", "bool = False", "Whether to count twice."),
        ),
        "dict[str, int]",
        "by",
        {"pallet": "P", "by": {"x": 1}, "recount": False},
    ),
    (
        "Move",
        "box",
        (
            ("source", "int", "Where the box stands."),
            ("target", "int", "Where the box goes."),
            ("careful", "bool = True", "Whether it is fragile."),
        ),
        "bool",
        "careful",
        {"source": 1, "target": 2, "careful": True},
    ),
)

Function = Callable[..., Any]


def samples() -> list[Function]:
    """The sample functions, in the order they are written."""
    return [function for name in SAMPLES for function in _defined_in(importlib.import_module(name))]


def write_module(folder: Path, count: int) -> Path:
    """A module of `count` functions with three parameters and a docstring each."""
    path = folder / f"made_{count}.py"
    path.write_text(_HEAD + "".join(_source(number) for number in range(count)))
    return path


def load_module(folder: Path, count: int) -> list[Function]:
    """The functions of a written module; its bytecode is kept, so only the first import compiles."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return _defined_in(importlib.import_module(f"made_{count}"))


def arguments_for(number: int) -> dict[str, Any]:
    """Arguments that the made function of that number accepts."""
    return _KINDS[number % len(_KINDS)][5]


def spread(count: int, picks: int) -> list[int]:
    """`picks` numbers below `count`, evenly spread, with the same kinds of functions whatever the count."""
    kinds = len(_KINDS)
    step = count // picks
    return [pick * step // kinds * kinds + pick % kinds for pick in range(picks)]


def _source(number: int) -> str:
    verb, noun, parameters, returns, result, _ = _KINDS[number % len(_KINDS)]
    return _BODY.format(
        number=number,
        verb=verb,
        noun=noun,
        signature=", ".join(f"{name}: {hint}" for name, hint, _ in parameters),
        arguments="\n".join(f"        {name}: {words}" for name, _, words in parameters),
        returns=returns,
        result=result,
    )


def _defined_in(module: ModuleType) -> list[Function]:
    return [
        value
        for value in vars(module).values()
        if inspect.isfunction(value) and value.__module__ == module.__name__
    ]
