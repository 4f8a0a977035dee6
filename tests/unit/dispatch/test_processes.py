"""Code in processes: killed when late, and whatever happens there is an error of one call."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.unit.dispatch import failing_targets, targets
from tests.unit.dispatch.running import SOON_S, wait_until
from toolcrib.dispatch.failures import Raised
from toolcrib.dispatch.process_worker import LENGTH
from toolcrib.dispatch.processes import read_reply
from toolcrib.dispatch.runners import Runner, ToolSlots
from toolcrib.errors import (
    APIError,
    DefinitionError,
    InvalidToolError,
    ToolBusyError,
    ToolCrashedError,
    ToolError,
    ToolTimeoutError,
)

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")

START_S = 30.0  # to start an interpreter on a busy machine


def is_running(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def read_pid(sign: Path) -> int:
    await wait_until(lambda: sign.exists() and sign.read_text() != "", START_S)
    return int(sign.read_text())


async def run(runner: Runner, slots: ToolSlots, function, *args, **kwargs):
    return await runner.run_process(slots, function, args, kwargs, START_S)


# --- results ---


async def test_a_function_runs_in_another_process_and_that_one_is_used_again(runner, slots):
    pids = {await run(runner, slots, targets.get_pid) for _ in range(5)}
    assert len(pids) == 1
    assert os.getpid() not in pids
    assert await run(runner, slots, targets.add, 1, b=2) == 3
    assert (slots.running, slots.abandoned) == (0, 0)


def test_anything_that_the_function_prints_goes_to_standard_error_and_its_input_is_empty():
    program = """
import asyncio
from tests.unit.dispatch import targets
from toolcrib.dispatch.runners import ToolSlots
from toolcrib.dispatch.runners import Runner
async def main():
    runner = Runner()
    print(repr(await runner.run_process(ToolSlots("x"), targets.print_much, ("noise",), {}, 30)))
    runner.close()
asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        input="protocol message",
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.stdout == "''\n"
    assert done.stderr.count("noise") == 2


# --- errors ---


async def test_errors_come_back_with_their_name_words_and_place(runner, slots):
    with pytest.raises(Raised) as caught:
        await run(runner, slots, targets.fail, "oh")
    assert type(caught.value.error).__name__ == "ValueError"
    assert str(caught.value.error) == "oh"
    assert "in fail" in caught.value.error.__notes__[0]


async def test_the_words_for_the_model_survive(runner, slots):
    with pytest.raises(Raised) as caught:
        await run(runner, slots, failing_targets.fail_for_the_model, "try the other one")
    assert type(caught.value.error) is ToolError
    assert str(caught.value.error) == "try the other one"
    assert caught.value.error.details == {"field": "x"}
    with pytest.raises(Raised) as caught:
        await run(runner, slots, failing_targets.fail_with, "api")
    assert isinstance(caught.value.error, APIError)
    assert (caught.value.error.status, caught.value.error.body) == (404, "not here")
    with pytest.raises(Raised) as caught:
        await run(runner, slots, failing_targets.fail_with, "two parts for the model")
    assert type(caught.value.error) is ToolError
    assert str(caught.value.error) == "a-b"


async def test_an_error_that_cannot_be_made_again_is_named(runner, slots):
    with pytest.raises(Raised) as caught:
        await run(runner, slots, failing_targets.fail_with, "two parts")
    assert (type(caught.value.error).__name__, str(caught.value.error)) == ("TwoPartError", "a-b")
    with pytest.raises(Raised) as caught:
        await run(runner, slots, failing_targets.fail_with, "mute")
    assert (type(caught.value.error).__name__, str(caught.value.error)) == ("MuteError", "")
    with pytest.raises(Raised) as caught:
        await run(runner, slots, failing_targets.fail_with, "group")
    assert (type(caught.value.error), str(caught.value.error)) == (ToolError, "in a group ?")
    with pytest.raises(Raised) as caught:
        await run(runner, slots, failing_targets.fail_with, "local")
    assert type(caught.value.error).__name__ == "LocalError"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("exit", "SystemExit"), ("interrupt", "KeyboardInterrupt"), ("recursion", "RecursionError")],
)
async def test_a_function_that_wants_to_end_everything_ends_its_call(runner, slots, kind, expected):
    with pytest.raises(Raised) as caught:
        await run(runner, slots, failing_targets.fail_with, kind)
    assert type(caught.value.error).__name__ == expected
    assert isinstance(caught.value.error, Exception)


@pytest.mark.parametrize(("function", "args"), [(targets.leave, (3,)), (targets.crash, ())])
async def test_the_end_of_the_process_is_an_error_of_one_call(runner, slots, function, args, caplog):
    with pytest.raises(ToolCrashedError, match="'probe' failed: its process ended before it answered"):
        await run(runner, slots, function, *args)
    (record,) = caplog.records
    assert record.tool_name == "probe"
    assert record.exit_code in (3, -signal.SIGSEGV)
    assert await run(runner, slots, targets.add, 1, 2) == 3


async def test_a_call_that_has_begun_is_never_repeated(runner, slots, tmp_path):
    file = tmp_path / "lines"
    with pytest.raises(ToolCrashedError):
        await run(runner, slots, targets.leave_a_line, str(file))
    assert file.read_text() == "ran\n"


async def test_a_process_that_died_while_idle_is_replaced(runner, slots):
    for _ in range(3):
        pid = await run(runner, slots, targets.get_pid)
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert await run(runner, slots, targets.get_pid) != pid


# --- what cannot be sent ---


async def test_a_function_that_cannot_be_sent_is_a_clear_definition_error(runner, slots):
    def nested() -> None: ...

    for function in (nested, lambda: 1):
        with pytest.raises(
            InvalidToolError, match=r"'probe' cannot run in a process.*Define it at module level"
        ):
            await run(runner, slots, function)
    assert issubclass(InvalidToolError, DefinitionError)


async def test_an_argument_that_cannot_be_sent_is_a_clear_error(runner, slots):
    with pytest.raises(InvalidToolError, match="an argument cannot be sent"):
        await run(runner, slots, targets.measure, threading.Lock())


@pytest.mark.parametrize("name", ["lock", "nan", "cycle"])
async def test_a_result_that_is_not_plain_is_an_error_of_one_call(runner, slots, name):
    with pytest.raises(Raised):
        await run(runner, slots, targets.return_odd, name)
    assert await run(runner, slots, targets.add, 1, 2) == 3


# --- modules loaded from files ---


async def test_modules_loaded_by_path_are_loaded_there_first(runner, slots, tmp_path, monkeypatch):
    file = tmp_path / "some tool.py"
    file.write_text("def answer():\n    return __name__\n")
    import importlib.util

    spec = importlib.util.spec_from_file_location("toolcrib_file_1", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "toolcrib_file_1", module)
    preload = [("toolcrib_file_1", str(file))]
    assert await runner.run_process(slots, module.answer, (), {}, START_S, preload) == "toolcrib_file_1"

    file.write_text("def answer():\n    return 'changed since'\n")
    assert await runner.run_process(slots, module.answer, (), {}, START_S, preload) == "changed since"

    file.write_text("raise ValueError('broken module')\n")
    with pytest.raises(Raised, match="broken module"):
        await runner.run_process(slots, module.answer, (), {}, START_S, preload)


async def test_anything_that_the_parent_can_import_the_process_can(runner, slots, tmp_path, monkeypatch):
    (tmp_path / "found_by_path_only.py").write_text("def answer():\n    return 42\n")
    assert await run(runner, slots, targets.add, 1, 2) == 3  # the process is there before the path is
    monkeypatch.syspath_prepend(str(tmp_path))
    import found_by_path_only

    assert await run(runner, slots, found_by_path_only.answer) == 42


def test_functions_of_the_main_script_work(tmp_path):
    script = tmp_path / "main_script.py"
    script.write_text(
        """
import asyncio, sys
from toolcrib.dispatch.runners import ToolSlots
from toolcrib.dispatch.runners import Runner
print("imported", file=sys.stdout)
class Point:
    def __init__(self, x): self.x = x
def double(point):
    return point.x * 2
async def main():
    runner = Runner()
    print(await runner.run_process(ToolSlots("x"), double, (Point(4),), {}, 30))
    runner.close()
if __name__ == "__main__":
    asyncio.run(main())
"""
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.stdout == "imported\n8\n"
    assert done.stderr == "imported\n"


# --- deadlines and the end ---


async def test_a_late_process_is_answered_for_in_time_and_really_killed(runner, slots, tmp_path):
    await run(runner, slots, targets.add, 1, 2)
    sign = tmp_path / "sign"
    started = time.monotonic()
    with pytest.raises(ToolTimeoutError, match=r"within 0\.5 s"):
        await runner.run_process(slots, targets.hang, (str(sign),), {}, 0.5)
    assert 0.5 <= time.monotonic() - started < 0.5 + SOON_S
    pid = await read_pid(sign)
    await wait_until(lambda: not is_running(pid), 1.0)
    await wait_until(lambda: slots.running == 0, 1.0)
    assert (slots.abandoned, runner.abandoned) == (0, 0)
    assert await run(runner, slots, targets.add, 1, 2) == 3


async def test_a_cancelled_call_kills_its_process_and_what_that_has_started(runner, slots, tmp_path):
    sign = tmp_path / "sign"
    task = asyncio.create_task(run(runner, slots, targets.hang_with_a_child, str(sign)))
    pid = await read_pid(sign)
    assert is_running(pid)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await wait_until(lambda: not is_running(pid), 1.0)
    await wait_until(lambda: slots.running == 0, 1.0)


async def test_a_deadline_while_the_process_starts_leaves_nothing_behind(runner, slots):
    for timeout_s in (0.0, 0.001, 0.005, 0.02):
        with pytest.raises(ToolTimeoutError):
            await runner.run_process(slots, targets.add, (1, 2), {}, timeout_s)
    await wait_until(lambda: slots.running == 0)
    assert await run(runner, slots, targets.add, 1, 2) == 3


async def test_calls_beyond_the_number_of_processes_wait_for_one(slots, tmp_path):
    runner = Runner(max_processes=1)
    try:
        sign = tmp_path / "sign"
        first = asyncio.create_task(run(runner, slots, targets.hang, str(sign)))
        pid = await read_pid(sign)
        with pytest.raises(ToolTimeoutError):
            await runner.run_process(slots, targets.add, (1, 2), {}, 0.05)
        await wait_until(lambda: slots.running == 1)  # the one that waited is gone
        second = asyncio.create_task(run(runner, slots, targets.add, 1, 2))
        await asyncio.sleep(0.02)
        first.cancel()
        assert await second == 3
        assert not is_running(pid)
    finally:
        runner.close()


async def test_the_limit_of_the_slots_holds_for_processes_too(runner, tmp_path):
    slots = ToolSlots("narrow", max_threads=1, max_queue=0)
    sign = tmp_path / "sign"
    first = asyncio.create_task(run(runner, slots, targets.hang, str(sign)))
    await read_pid(sign)
    with pytest.raises(ToolBusyError):
        await run(runner, slots, targets.add, 1, 2)
    first.cancel()
    await asyncio.wait([first])


async def test_close_kills_idle_and_busy_processes(slots, tmp_path):
    runner = Runner()
    sign = tmp_path / "sign"
    busy = asyncio.create_task(run(runner, slots, targets.hang, str(sign)))
    busy_pid = await read_pid(sign)
    idle_pid = await run(runner, slots, targets.get_pid)
    runner.close()
    with pytest.raises(ToolCrashedError):
        await busy
    await wait_until(lambda: not is_running(busy_pid) and not is_running(idle_pid), 1.0)
    with pytest.raises(ToolBusyError, match="closing"):
        await run(runner, slots, targets.add, 1, 2)


def test_processes_end_when_their_parent_is_killed(tmp_path):
    sign = tmp_path / "sign"
    program = f"""
import asyncio
from tests.unit.dispatch import targets
from toolcrib.dispatch.runners import ToolSlots
from toolcrib.dispatch.runners import Runner
async def main():
    runner = Runner()
    print(await runner.run_process(ToolSlots("x"), targets.get_pid, (), {{}}, 30), flush=True)
    asyncio.create_task(runner.run_process(ToolSlots("y"), targets.get_pid, (), {{}}, 30))
    await runner.run_process(ToolSlots("x"), targets.hang_with_a_child, ({str(sign)!r},), {{}}, 60)
asyncio.run(main())
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    first = int(parent.stdout.readline())
    grandchild = asyncio.run(read_pid(sign))
    assert is_running(first)
    assert is_running(grandchild)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    asyncio.run(wait_until(lambda: not is_running(first) and not is_running(grandchild), 2.0))


async def test_a_converter_makes_data_of_any_result(runner, slots):
    converter = targets.Converter("<%s>")
    arguments = (slots, targets.return_odd, ("keys",), {}, START_S)
    assert await runner.run_process(*arguments, converter=converter) == "<{1: 2}>"


# --- what code in the process may send ---


@pytest.mark.parametrize("reply", [b"", b"v1", b"e[]"])
async def test_code_in_the_process_cannot_answer_for_it(runner, slots, reply):
    assert targets.LENGTH.format == LENGTH.format
    with pytest.raises(ToolCrashedError):
        await run(runner, slots, targets.write_reply, reply, reply)
    assert await run(runner, slots, targets.add, 1, 2) == 3


@pytest.mark.parametrize(
    "reply", [b"", b"x{}", b"e[]", b'e{"kinds":[],"text":"","trace":""}', b"v[", b"v\xff"]
)
def test_a_reply_that_is_not_as_agreed_is_refused(reply):
    with pytest.raises((LookupError, TypeError, ValueError)):
        read_reply(reply)


async def test_a_reply_without_end_ends_the_process(runner, slots):
    with pytest.raises(ToolCrashedError):
        await run(runner, slots, targets.claim_length, 2**40)
    assert await run(runner, slots, targets.add, 1, 2) == 3


def test_an_error_of_an_odd_name_has_an_ordinary_one():
    with pytest.raises(Raised) as caught:
        read_reply(b'e{"kinds":["a.b c"],"text":"t","trace":""}')
    assert type(caught.value.error).__name__ == "Exception"
