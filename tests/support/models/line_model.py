"""A model program that speaks the line protocol, correctly or not.

    python tests/support/models/line_model.py MANNER

It uses only the standard library, so that it starts quickly.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

MANNERS: dict[str, Callable[[], Any]] = {}


def manner(function: Callable[[], Any]) -> Callable[[], Any]:
    MANNERS[function.__name__] = function
    return function


def read() -> str:
    return sys.stdin.read()


def results() -> list[Any]:
    """Return the results below the last question, none in the first turn."""
    lines = read().rpartition("User: ")[2].splitlines()
    return [json.loads(line)["tool_result"] for line in lines if line.startswith('{"tool_result"')]


def say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def ask(name: Any, **args: Any) -> None:
    say(json.dumps({"tool_call": {"name": name, "args": args}}) + "\n")


def wait_for_ever() -> None:
    while True:
        signal.pause()


# --- well ---


@manner
def adds() -> None:
    heard = results()
    if heard:
        say(f"The sum is {heard[0]['result']}.\n")
    else:
        say("Let me see.\n")
        ask("add", a=2, b=3)


@manner
def recites() -> None:
    """Answers with its input, for the test to check; behind a mark, as the prompt shows what a call is."""
    say("".join(f"| {line}\n" for line in read().splitlines()))


@manner
def asks_twice_at_once() -> None:
    heard = results()
    if heard:
        say(f"{heard[0]['result']} and {heard[1]['result']}")
    else:
        ask("add", a=1, b=1)
        ask("add", a=10, b=1)


# --- wrongly, but one can go on ---


@manner
def errs() -> None:
    """Makes every possible mistake in calls, and repeats the answers."""
    for item in (heard := results()):
        say(f"{item['ok']}: {item['error']}\n")
    for line in (
        ()
        if heard
        else (
            '{"tool_call": {"name": "ad", "args": {}}}',
            '{"tool_call": {"name": "add", "args": {"a": "many"}}}',
            '{"tool_call": {"name": "add", "args": [1, 2]}}',
            '{"tool_call": {"args": {}}}',
            '{"tool_call": "add"}',
            '{"tool_call": {"name": "add", "args": {"a": 1, }}}',
            '{"tool_call": {"name": "fail", "args": {}}}',
            '{"tool_call": {"name": "crash", "args": {}}}',
        )
    ):
        say(line + "\n")


@manner
def babbles() -> None:
    """Writes invalid UTF-8, braces that are not a call, and then an answer."""
    read()
    sys.stdout.buffer.write(b'\x00\xff\xfe{\n{}\n{"tool_call": 1, "b": 2}\n[1]\n' + bytes(range(256)) + b"\n")
    say('{"tool_result": {"name": "add", "ok": true, "result": 7}}\n')
    say("done")


@manner
def complains() -> None:
    """Writes more to stderr than a pipe holds, and then answers."""
    read()
    sys.stderr.write("oh dear\n" * 100_000)
    say("well")


@manner
def asks_for_much() -> None:
    if heard := results():
        say(f"{len(heard[0]['result'])} {heard[0]['result'][-60:]}")
    else:
        ask("letters", count=1_000_000)


@manner
def asks_too_often() -> None:
    if heard := results():
        say(" ".join(item.get("error", "fine") for item in heard))
    else:
        say('{"tool_call": {"name": "add", "args": {"a": 1, "b": 1}}}\n' * 30)


# --- badly ---


@manner
def stalls() -> None:
    read()
    say("Hm")
    wait_for_ever()


@manner
def never_reads() -> None:
    wait_for_ever()


@manner
def will_not_go() -> None:
    """Ignores SIGTERM, and so does its child process."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); signal.pause()"
    child = subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    read()
    say(f"{os.getpid()} {child.pid}\n")
    wait_for_ever()


@manner
def leaves_a_child() -> None:
    """Exits and leaves a child process that holds its pipes open."""
    child = subprocess.Popen([sys.executable, "-S", "-c", "import signal; signal.pause()"])
    read()
    say(f"{child.pid}\n")


@manner
def dies() -> None:
    read()
    say("I was about to\n")
    sys.stderr.write("out of memory\nat line 7\n")
    sys.exit(3)


@manner
def dies_in_a_line() -> None:
    read()
    say('{"tool_call": {"name": "ad')
    os._exit(1)


@manner
def says_nothing() -> None:
    read()


@manner
def closes_its_output() -> None:
    read()
    os.close(1)
    wait_for_ever()


@manner
def talks_for_ever() -> None:
    read()
    while True:
        say("and so on " * 1000)


@manner
def writes_one_line_for_ever() -> None:
    read()
    say('{"tool_call": {"name": "add", "args": {"a": "')
    while True:
        say("x" * 65536)


@manner
def asks_for_ever() -> None:
    read()
    ask("add", a=1, b=1)


@manner
def asks_without_listening() -> None:
    read()
    while True:
        say('{"tool_call": {"name": "add", "args": {"a": 1, "b": 1}}}\n' * 1000)


@manner
def asks_for_something_slow() -> None:
    if heard := results():
        say(heard[0]["error"])
    else:
        ask("wait")


if __name__ == "__main__":
    MANNERS[sys.argv[1]]()
