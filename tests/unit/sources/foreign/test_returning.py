"""What their functions return and raise, in our words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fastmcp.exceptions
import fastmcp.utilities.types
import mcp.server.mcpserver
import mcp_types
import pytest
from fastmcp.tools.base import InputRequiredToolResult, ToolResult
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from toolcrib import Result
from toolcrib import ToolError as OwnToolError
from toolcrib.errors import CannotAskError
from toolcrib.sources.foreign.handling import explain, input_required_of, to_own


class Image:
    """A class of somebody's own that only has the name."""


class Chart(fastmcp.utilities.types.Image):
    """A class of somebody's own that is one of theirs."""


@pytest.mark.parametrize("value", [1, "x", None, {"a": 1}, [1, [2]], (1,), b"x", 1.5, Image(), {1}])
def test_data_is_left_alone(value: Any) -> None:
    assert to_own(value) is value


@pytest.mark.parametrize(
    "made",
    [
        mcp.server.mcpserver.Image(data=b"x", format="png"),
        fastmcp.utilities.types.Image(data=b"x", format="png"),
        Chart(data=b"x", format="png"),
        mcp_types.ImageContent(type="image", data="eA==", mime_type="image/png"),
    ],
)
def test_a_picture_is_a_picture_whoever_made_it(made: Any) -> None:
    assert to_own(made) == Result([{"type": "image", "data": "eA==", "mimeType": "image/png"}])


def test_files_and_sound_are_read(tmp_path: Path) -> None:
    file = tmp_path / "a.wav"
    file.write_bytes(b"RIFF")

    sound = to_own(mcp.server.mcpserver.Audio(path=file))
    document = to_own(fastmcp.utilities.types.File(data=b"hi", format="txt", name="a"))

    assert sound.content[0]["type"] == "audio"
    assert document.content[0]["resource"]["text"] == "hi"


def test_a_list_with_blocks_in_it_becomes_blocks_lists_in_it_included() -> None:
    class Point(BaseModel):
        x: int

    mixed = ["a", [mcp_types.TextContent(type="text", text="b"), 3], Point(x=1), {"y": None}]

    assert [block["text"] for block in to_own(mixed).content] == ["a", "b", "3", '{"x":1}', '{"y":null}']


def test_a_list_of_models_is_data() -> None:
    class Point(BaseModel):
        x: int

    points = [Point(x=1)]

    assert to_own(points) is points


def test_a_whole_result_keeps_its_parts_without_their_bookkeeping() -> None:
    result = ToolResult(
        "text", {"a": 1}, meta={"fastmcp": {"wrap_result": True}, "me.example/x": 1}, is_error=True
    )

    assert to_own(result) == Result(
        [{"type": "text", "text": "text"}], {"a": 1}, True, True, {"me.example/x": 1}
    )


def test_questions_are_told_from_results() -> None:
    needed = mcp_types.InputRequiredResult(request_state="s")

    assert input_required_of(needed) is needed
    assert input_required_of(InputRequiredToolResult(needed)) is needed
    assert input_required_of(ToolResult("text")) is None
    assert input_required_of({"input_required": 1}) is None
    assert input_required_of(Image()) is None


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ToolError("no tea"), "no tea"),
        (fastmcp.exceptions.ToolError("no tea"), "no tea"),
        (fastmcp.exceptions.ResourceError("no file"), "no file"),
        (MCPError(-32000, "later", {"x": 1}), "later"),
    ],
)
def test_words_that_were_meant_to_be_read_are_shown(error: Exception, text: str) -> None:
    told = explain(error)

    assert isinstance(told, OwnToolError)
    assert str(told) == text


def test_a_protocol_error_keeps_its_code() -> None:
    told = explain(MCPError(-32000, "later"))

    assert isinstance(told, OwnToolError)
    assert told.details == {"code": -32000}


@pytest.mark.parametrize("error", [ValueError("secret"), CannotAskError("nobody")])
def test_other_errors_stay_what_they_are(error: Exception) -> None:
    assert explain(error) is error


def test_an_error_that_was_raised_from_another_keeps_its_own_words() -> None:
    error = ToolError("no tea")
    error.__cause__ = KeyError("secret")

    assert str(explain(error)) == "no tea"


def test_what_their_own_run_wraps_is_unwrapped() -> None:
    crash, said = UnexpectedToolError("Error executing tool x"), ToolError("Error executing tool x: no tea")
    crash.__cause__ = KeyError("secret")
    said.__cause__ = ToolError("no tea")

    assert explain(crash) is crash.__cause__
    assert str(explain(said)) == "no tea"
