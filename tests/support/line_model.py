"""A model program that speaks the line protocol, correctly or not.

    python tests/support/line_model.py MANNER

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


def read() -> Any:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def ask(name: Any, **args: Any) -> None:
    say(json.dumps({"tool_call": {"name": name, "args": args}}) + "\n")


def result() -> Any:
    return read()["tool_result"]


def wait_for_ever() -> None:
    while True:
        signal.pause()


# --- well ---


@manner
def adds() -> None:
    while True:
        read()
        say("Let me see.\n")
        ask("add", a=2, b=3)
        say(f"The sum is {result()['result']}.\n")
        say('{"final": true}\n')


@manner
def adds_and_exits() -> None:
    read()
    ask("add", a=2, b=3)
    say(f"The sum is {result()['result']}.")


@manner
def repeats() -> None:
    """Answers with its input, for the test to check."""
    while True:
        say(json.dumps({"final": json.dumps(read())}) + "\n")


@manner
def repeats_once() -> None:
    say(json.dumps({"final": json.dumps(read())}) + "\n")


@manner
def asks_twice_at_once() -> None:
    read()
    lines = [json.dumps({"tool_call": {"name": "add", "args": {"a": n, "b": 1}}}) + "\n" for n in (1, 10)]
    say("".join(lines))
    say(f"{result()['result']} and {result()['result']}")


@manner
def ends_beside_its_call() -> None:
    """Ends without waiting for the result of its call."""
    read()
    say('{"tool_call": {"name": "add", "args": {"a": 2, "b": 3}}}\nAdded.\n{"final": true}\n')
    while True:
        read()


@manner
def exits_beside_its_call() -> None:
    read()
    say('{"tool_call": {"name": "linger"}}\nAsked.\n{"final": true}\n')


@manner
def ends_without_a_word() -> None:
    read()
    say('{"final": true}\n')


@manner
def writes_a_reading() -> None:
    """Reads all of its input before it writes anything."""
    text = sys.stdin.read()
    if '"tool_result"' not in text.rpartition("User: ")[2]:
        say("I need a tool.\n")
        ask("add", a=2, b=3)
    else:
        found = json.loads(text.rpartition('{"tool_result"')[2].join(['{"tool_result"', ""]).splitlines()[0])
        say(f"The sum is {found['tool_result']['result']}.\n")


@manner
def recites() -> None:
    say(json.dumps({"final": sys.stdin.read()}))


# --- wrongly, but one can go on ---


@manner
def errs() -> None:
    """Makes every possible mistake in calls, and repeats the answers."""
    read()
    for line in (
        '{"tool_call": {"name": "ad", "args": {}}}',
        '{"tool_call": {"name": "add", "args": {"a": "many"}}}',
        '{"tool_call": {"name": "add", "args": [1, 2]}}',
        '{"tool_call": {"args": {}}}',
        '{"tool_call": "add"}',
        '{"tool_call": {"name": "add", "args": {"a": 1, }}}',
        '{"tool_call": {"name": "fail", "args": {}}}',
        '{"tool_call": {"name": "crash", "args": {}}}',
    ):
        say(line + "\n")
        heard = result()
        say(f"{heard['ok']}: {heard['error']}\n")


@manner
def babbles() -> None:
    """Writes invalid UTF-8, braces that are not a call, and then an answer."""
    read()
    sys.stdout.buffer.write(b'\x00\xff\xfe{\n{}\n{"tool_call": 1, "b": 2}\n[1]\n' + bytes(range(256)) + b"\n")
    say('{"tool_result": {"name": "add", "ok": true, "result": 7}}\n')
    say('  {"final": "done"}\n')


@manner
def complains() -> None:
    """Writes more to stderr than a pipe holds, and then answers."""
    read()
    sys.stderr.write("oh dear\n" * 100_000)
    say("well")


@manner
def asks_for_much() -> None:
    read()
    ask("letters", count=1_000_000)
    heard = result()
    say(f"{len(heard['result'])} {heard['result'][-60:]}")


@manner
def asks_too_often() -> None:
    read()
    os.write(1, b'{"tool_call": {"name": "add", "args": {"a": 1, "b": 1}}}\n' * 30)
    heard = [result() for _ in range(30)]
    say(" ".join(item.get("error", "fine") for item in heard))


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
def asks_and_dies() -> None:
    read()
    ask("add", a=1, b=1)
    os._exit(0)


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
    while True:
        ask("add", a=1, b=1)
        result()


@manner
def asks_without_listening() -> None:
    read()
    while True:
        say('{"tool_call": {"name": "add", "args": {"a": 1, "b": 1}}}\n' * 1000)


@manner
def asks_for_something_slow() -> None:
    read()
    ask("wait")
    say(f"{result()['error']}")


if __name__ == "__main__":
    MANNERS[sys.argv[1]]()
