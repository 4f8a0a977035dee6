"""What comes back from a process: data that is made there, and read with suspicion here."""

from __future__ import annotations

import os

import pytest

from tests.unit.execution import targets
from toolcrib.dispatch.concurrency import Lane, Raised
from toolcrib.dispatch.runners import Runner
from toolcrib.errors import InvalidResultError, ToolCrashedError

pytestmark = pytest.mark.skipif(os.name == "nt", reason="looks for pipes as POSIX has them")

START_S = 30.0  # to start an interpreter on a busy machine


async def run(runner: Runner, lane: Lane, function, *args):
    return (await runner.run_process(lane, function, args, {}, START_S)).value


async def test_a_converter_makes_data_of_what_is_not_plain_or_too_long(runner, lane):
    async def convert(function, *args, plain_bytes=None):
        options = {"converter": targets.Converter("<%s>"), "plain_bytes": plain_bytes}
        return await runner.run_process(lane, function, args, {}, START_S, **options)

    assert await convert(targets.add, 1, 2) == (3, False)
    assert await convert(targets.return_odd, "keys") == ("<{1: 2}>", True)
    assert await convert(targets.add, 10, 20, plain_bytes=1) == ("<30>", True)
    assert await convert(targets.add, 1, 2, plain_bytes=0) == ("<3>", True)


# --- what code in the process may send ---


@pytest.mark.parametrize(
    "reply", [b"", b"x{}", b"e[]", b'e{"kinds":[],"text":"","trace":""}', b"p[", b"p\xff"]
)
async def test_a_reply_that_is_not_as_agreed_ends_the_process_and_one_call(runner, lane, reply):
    with pytest.raises(InvalidResultError, match="cannot be read here"):
        await run(runner, lane, targets.write_reply, reply)
    assert await run(runner, lane, targets.add, 1, 2) == 3


async def test_what_was_written_too_much_answers_no_other_call(runner, lane):
    assert await run(runner, lane, targets.write_reply, b"p1", b"", b"p2") == 1
    assert await run(runner, lane, targets.add, 1, 2) == 3


async def test_a_reply_without_end_ends_the_process(runner, lane):
    with pytest.raises(ToolCrashedError):
        await run(runner, lane, targets.claim_length, 2**40)
    assert await run(runner, lane, targets.add, 1, 2) == 3


async def test_an_error_of_an_odd_name_has_an_ordinary_one(runner, lane):
    reply = b'e{"kinds":["a.b c"],"text":"t","trace":""}'
    with pytest.raises(Raised) as caught:
        await run(runner, lane, targets.write_reply, reply)
    assert type(caught.value.error).__name__ == "Exception"
