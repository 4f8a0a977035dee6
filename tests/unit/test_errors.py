"""Exceptions: what tracebacks, copies and other processes keep of them."""

import copy
import pickle
import subprocess
import sys
import traceback

import pytest

from toolcrib import tool
from toolcrib.errors import (
    AgentError,
    ConfigurationError,
    DefinitionError,
    FileUnavailableError,
    InvalidToolError,
    ToolAlreadyExistsError,
    ToolcribError,
    TransportError,
)


def shown(error: BaseException) -> list[str]:
    """Return an exception as a traceback shows it, without the frames."""
    return "".join(traceback.format_exception_only(error)).splitlines()


def test_a_traceback_shows_the_hint() -> None:
    with pytest.raises(InvalidToolError, match="Unknown tool option: readonly") as caught:
        tool(readonly=True)  # type: ignore[call-overload]
    assert str(caught.value) == "Unknown tool option: readonly"
    assert shown(caught.value) == [
        "toolcrib.errors.InvalidToolError: Unknown tool option: readonly",
        "hint: did you mean 'read_only'?",
    ]


def test_a_program_that_ends_with_an_error_prints_its_hint() -> None:
    code = "from toolcrib import MCPServer; MCPServer().add('nothing.py')"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.stderr.splitlines()[-1] == "hint: give a file, a folder, a module or module:object"


def test_a_hint_that_is_set_later_is_shown_once() -> None:
    error = ConfigurationError("x", hint="first")
    error.add_note("a note")
    error.hint = "second"
    error.hint = "second"
    assert shown(error)[1:] == ["hint: second", "a note"]
    error.hint = None
    assert shown(error)[1:] == ["a note"]
    late = TransportError("x")
    late.hint = "start it"
    assert shown(late)[1:] == ["hint: start it"]
    assert ToolcribError("x").hint is None


def test_hints_of_further_problems_are_shown() -> None:
    error = DefinitionError("one", hint="a").add([DefinitionError("two", hint="b"), DefinitionError("three")])
    assert shown(error)[1:] == ["hint: a", "Also: two (hint: b)", "Also: three"]


@pytest.mark.parametrize(
    "error",
    [
        InvalidToolError("x", hint="h"),
        ToolAlreadyExistsError("x"),
        ConfigurationError("x", file="a.toml", key="k", line=3, hint="h"),
        AgentError("x", kind="busy", hint="h"),
        FileUnavailableError("x", details={"a": 1}),
        TransportError("x", status=404),
    ],
    ids=lambda error: type(error).__name__,
)
def test_copies_keep_everything_once(error: ToolcribError) -> None:
    error.hint = "h"
    error.add_note("a note")
    for copied in (copy.copy(error), copy.deepcopy(error), pickle.loads(pickle.dumps(error))):
        assert type(copied) is type(error)
        assert shown(copied) == shown(error)
        assert shown(copied)[1:] == ["hint: h", "a note"]
        assert copied.args == error.args
        assert vars(copied) == vars(error)
