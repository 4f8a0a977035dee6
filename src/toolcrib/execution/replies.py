"""Read what worker processes send: JSON, never a pickle.

The code of a tool runs in the worker and can write to its pipe, so a reply is untrusted. `child.py` says in
which form it comes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from toolcrib import codec, errors
from toolcrib.errors import APIError, CallError, InvalidResultError
from toolcrib.execution import child
from toolcrib.execution.lane import Raised


class Returned(NamedTuple):
    """What a function returned, as JSON data. `is_converted`: a converter made the data."""

    value: Any
    is_converted: bool


class Outcome:
    """What came of a call: a value, or an error to raise where the caller is."""

    __slots__ = ("_error", "_value")

    def __init__(self, value: Any = None, error: BaseException | None = None) -> None:
        self._value = value
        self._error = error

    def unfold(self) -> Any:
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error from None
            finally:
                del error
        return self._value


def read_reply(reply: bytes, name: str) -> Outcome:
    """The outcome of a call of tool `name`. Raises LookupError, TypeError or ValueError where the reply is
    malformed."""
    kind, data = reply[:1], codec.decode(reply[1:])
    if kind in (child.PLAIN, child.CONVERTED):
        return Outcome(Returned(data, kind == child.CONVERTED))
    if kind == child.UNSENDABLE:
        text = f"Tool '{name}' returned a {data}, which cannot be sent between processes."
        return Outcome(error=InvalidResultError(text))
    if kind == child.ERROR:
        return Outcome(error=Raised(_make_error(data)))
    raise ValueError("unknown kind of reply")


_CALL_ERRORS = {
    f"{kind.__module__}.{kind.__qualname__}": kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, CallError)
}


def _make_error(told: Any) -> BaseException:
    """An error like the one that was raised in a process: of the same class where that is one of ours for
    callers, else of a class that only has its name."""
    kinds, text, trace = told["kinds"], str(told["text"]), str(told["trace"])
    kind = next((_CALL_ERRORS[name] for name in kinds if name in _CALL_ERRORS), None)
    error: BaseException
    if kind is APIError:
        facts = {name: told[name] for name in ("status", "body", "reached") if name in told}
        error = APIError(text, **facts)
    elif kind is not None:
        error = kind(text, details=told.get("details"))
    else:
        name = str(kinds[0]).rpartition(".")[2]
        error = type(name if name.isidentifier() else "Exception", (Exception,), {})(text)
    error.add_note(f"raised in another process:\n{trace}")
    return error
