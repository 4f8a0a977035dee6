"""Results of worker processes, converted to data where the tool runs.

The server must not unpickle what a worker sends, so a worker sends JSON: `ResultConverter` runs there and
makes a draft of the result, `ResultPlan.receive` reads the draft in the server and checks it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from toolcrib import codec
from toolcrib.content import Block, Result
from toolcrib.definition import ToolOptions
from toolcrib.schema.parameters import Callee
from toolcrib.schema.result import ResultPlan
from toolcrib.schema.signature import build_blueprint
from toolcrib.validation import Validator

_DERIVED: list[Block] = []
"""Stands for the text that is made of structured data: the server makes it again."""


class ResultConverter:
    """Makes JSON of the results of tool `name`. Sent to the worker as a pickle. `function` is the one whose
    hints declare the results, None where nothing is declared."""

    def __init__(self, name: str, function: Callable[..., Any] | None, *, has_schema: bool) -> None:
        self._name = name
        self._function = function
        self._has_schema = has_schema

    @functools.cached_property
    def _plan(self) -> _DraftPlan:
        dump = None
        if self._function is not None:
            dump = build_blueprint(Callee(self._function), self._name, ToolOptions()).dump
        return _DraftPlan(self._name, {} if self._has_schema else None, dump, trusted=True)

    def __call__(self, value: Any) -> bytes:
        """Raises InvalidResultError where a value cannot be sent."""
        result = self._plan.finish(value)
        if result.content is _DERIVED:
            return b'["data",%s]' % result.structured_content
        if isinstance(value, str) and not self._has_schema:
            return codec.encode(["text", result.text])
        return codec.encode(["result", result.to_json()])


class _DraftPlan(ResultPlan):
    """Shapes values as any plan does. Whether they fit the schema is checked in the server."""

    __slots__ = ()

    @property
    def validator(self) -> Validator | None:
        return None

    def _structured(self, plain: Any) -> Result:
        data = codec.encode(plain)
        self._check_size(len(data))
        return Result(_DERIVED, data, False, True)
