"""Sockets of `toolcrib serve`: binding, URLs, and addresses that other machines can reach."""

from __future__ import annotations

import socket
import sys

import pytest

from toolcrib.cli.options import CommandError
from toolcrib.cli.output import open_terminal
from toolcrib.cli.serve import ServerInfo, bind_sockets, is_public, warn_public
from toolcrib.cli.serving import Summary
from toolcrib.cli.workers import open_worker_sockets, share_address
from toolcrib.transports.http.server import url_of


class Bound:
    """A socket that is bound to any address; tests may bind to loopback only."""

    def __init__(self, *name: object) -> None:
        self._name = name

    def getsockname(self) -> tuple[object, ...]:
        return self._name


@pytest.mark.parametrize(
    ("host", "bound", "address"),
    [
        ("127.0.0.1", ("127.0.0.1", 8000), "http://127.0.0.1:8000/mcp"),
        ("::1", ("::1", 8000, 0, 0), "http://[::1]:8000/mcp"),
        ("localhost", ("127.0.0.1", 8000), "http://localhost:8000/mcp"),
        ("0.0.0.0", ("0.0.0.0", 8000), "http://127.0.0.1:8000/mcp"),
        ("::", ("::", 8000, 0, 0), "http://[::1]:8000/mcp"),
        ("desk.example", ("10.0.0.7", 8000), "http://desk.example:8000/mcp"),
    ],
)
def test_a_url_can_be_used_on_this_machine(host: str, bound: tuple[object, ...], address: str) -> None:
    assert url_of(Bound(*bound), host, "/mcp") == address  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        ("127.0.0.1", False),
        ("127.8.8.8", False),
        ("::1", False),
        ("0.0.0.0", True),
        ("::", True),
        ("10.0.0.7", True),
    ],
)
def test_addresses_that_are_not_loopback_are_public(bound: str, expected: bool) -> None:
    assert is_public([Bound("127.0.0.1", 1), Bound(bound, 1)]) is expected  # type: ignore[list-item]


def test_a_public_server_without_authentication_is_warned_about(capsys: pytest.CaptureFixture[str]) -> None:
    info = ServerInfo(["http://10.0.0.7:8000/mcp"], workers=1, is_public=True)
    with open_terminal(debug=False) as terminal:
        warn_public(Summary("x", [], [], [], False), info, terminal)
    words = capsys.readouterr().err
    assert words.startswith(
        "warning: other machines can reach this server and call its tools without authentication"
    )
    assert "--allow-host" in words


def test_a_public_server_with_keys_is_not_warned_about(capsys: pytest.CaptureFixture[str]) -> None:
    info = ServerInfo(["http://10.0.0.7:8000/mcp"], workers=1, is_public=True)
    with open_terminal(debug=False) as terminal:
        warn_public(Summary("x", [], [], [], False, credential="KEY"), info, terminal)
    assert capsys.readouterr().err == ""


def test_both_families_of_a_name_get_the_same_port() -> None:
    sockets = bind_sockets("localhost", 0)
    ports = {each.getsockname()[1] for each in sockets}
    for each in sockets:
        each.close()
    assert len(ports) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux spreads connections over sockets")
def test_only_workers_share_an_address() -> None:
    held = bind_sockets("127.0.0.1", 0)
    share_address(held)
    port = held[0].getsockname()[1]
    workers = [open_worker_sockets(held)[0], open_worker_sockets(held)[0]]
    for each in workers:
        each.listen()
    with pytest.raises(CommandError, match=f"Port {port} is in use"):
        bind_sockets("127.0.0.1", port)
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(64)]
    accepted = []
    for each in workers:
        try:
            while True:
                accepted.append((each, each.accept()[0]))
        except BlockingIOError:
            pass
    assert len(accepted) == 64
    assert len({each for each, _ in accepted}) == 2
    for each in (*held, *workers, *clients, *(one for _, one in accepted)):
        each.close()
