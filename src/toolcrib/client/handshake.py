"""Finds out which era a server speaks, and gets to know it.

Newest first: `server/discover` of 2026-07-28, and where that is not understood the `initialize` of before.
Only an answer counts as one: a server that cannot be reached is an error, not an old server. Knows both
greetings; refuses to know links.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from toolcrib.client.dialect import LEGACY, MODERN, SERVER_INFO
from toolcrib.client.session import Session
from toolcrib.errors import BadAnswerError, ClientError, LinkError, NoAnswerError, RemoteError

PATIENCE_S = 5.0
"""How long `server/discover` may go unanswered before `initialize` is tried beside it: some servers are slow
to start, and some never answer what they do not know."""
_NOT_AN_ERA = (401, 403, 407)
_UNSUPPORTED_VERSION = -32022


@dataclass(frozen=True, slots=True)
class Peer:
    """What a server says of itself."""

    protocol_version: str
    capabilities: Mapping[str, Any]
    server_info: Mapping[str, Any]
    instructions: str | None

    @property
    def is_modern(self) -> bool:
        return self.protocol_version == MODERN

    @property
    def tells_changes(self) -> bool:
        tools = self.capabilities.get("tools")
        return isinstance(tools, Mapping) and tools.get("listChanged") is True


async def greet(session: Session, protocol: str, timeout_s: float) -> Peer:
    """Settle on a version: `protocol`, or for "auto" the newest that both sides know."""
    if protocol == MODERN:
        return await _discover(session, timeout_s)
    if protocol != "auto":
        return await _initialize(session, protocol, timeout_s)
    probe = asyncio.ensure_future(_discover(session, timeout_s))
    try:
        await asyncio.wait([probe], timeout=min(PATIENCE_S, timeout_s))
        if not probe.done():
            return await _greet_both_ways(session, probe, timeout_s)
        try:
            return probe.result()
        except (RemoteError, BadAnswerError, LinkError) as error:
            if not _may_be_legacy(session, error):
                raise
        return await _initialize(session, LEGACY[0], timeout_s)
    finally:
        await _drop(probe)


async def _greet_both_ways(session: Session, probe: asyncio.Future[Peer], timeout_s: float) -> Peer:
    """A server that is slow, or deaf to the new greeting: whichever greeting it answers well counts."""
    old = asyncio.ensure_future(_initialize(session, LEGACY[0], timeout_s))
    try:
        await asyncio.wait([probe, old], return_when=asyncio.FIRST_COMPLETED)
        first, second = (probe, old) if probe.done() else (old, probe)
        try:
            peer = first.result()
        except ClientError:
            peer = await second
        # Each greeting speaks its own dialect and the last one sent has the word: say it for good.
        _settle(session, peer)
        return peer
    finally:
        await _drop(old)


async def _drop(greeting: asyncio.Future[Peer]) -> None:
    greeting.cancel()
    await asyncio.gather(greeting, return_exceptions=True)


def _may_be_legacy(session: Session, error: ClientError) -> bool:
    if isinstance(error, LinkError):
        return error.status is not None and error.status not in _NOT_AN_ERA and not session.is_closed
    supported = _supported(error) if isinstance(error, RemoteError) else []
    return not supported or any(version in LEGACY for version in supported)


def _supported(error: RemoteError) -> list[Any]:
    """The versions that an error names, if it is about versions."""
    if error.rpc_code != _UNSUPPORTED_VERSION or not isinstance(error.data, Mapping):
        return []
    supported = error.data.get("supported")
    return supported if isinstance(supported, list) else []


async def _discover(session: Session, timeout_s: float) -> Peer:
    _speak(session, MODERN)
    session.link.reset()
    try:
        result = await session.request("server/discover", {}, timeout_s=timeout_s, is_greeting=True)
    except RemoteError as error:
        if MODERN not in _supported(error):
            raise
        # It names this very version: whatever it disliked may be over.
        result = await session.request("server/discover", {}, timeout_s=timeout_s, is_greeting=True)
    versions = result.get("supportedVersions")
    if not isinstance(versions, list) or MODERN not in versions:
        raise BadAnswerError(f"{session.link.place} does not offer {MODERN}")
    meta = result.get("_meta")
    return _peer(MODERN, result, meta.get(SERVER_INFO) if isinstance(meta, Mapping) else None)


async def _initialize(session: Session, version: str, timeout_s: float) -> Peer:
    _speak(session, version)
    session.link.reset()
    greeting = {
        "protocolVersion": version,
        "capabilities": session.dialect.capabilities,
        "clientInfo": session.dialect.info,
    }
    result = await session.request("initialize", greeting, timeout_s=timeout_s, is_greeting=True)
    agreed = result.get("protocolVersion")
    if agreed not in LEGACY:
        raise BadAnswerError(f"{session.link.place} speaks protocol version {agreed!r:.40}, unknown here")
    peer = _peer(agreed, result, result.get("serverInfo"))
    _settle(session, peer)
    try:
        async with asyncio.timeout(timeout_s):
            await session.notify("notifications/initialized")
    except TimeoutError:
        raise NoAnswerError(f"{session.link.place} does not take messages") from None
    return peer


def _speak(session: Session, version: str) -> None:
    capabilities = session.answers.capabilities(version)
    session.dialect = replace(session.dialect, version=version, capabilities=capabilities)


def _settle(session: Session, peer: Peer) -> None:
    if session.dialect.version != peer.protocol_version:
        _speak(session, peer.protocol_version)
    if peer.is_modern:
        session.link.reset()
    else:
        session.link.settle(session.dialect.standing_headers)


def _peer(version: str, result: Mapping[str, Any], info: Any) -> Peer:
    capabilities, instructions = result.get("capabilities"), result.get("instructions")
    return Peer(
        version,
        capabilities if isinstance(capabilities, Mapping) else {},
        info if isinstance(info, Mapping) else {},
        instructions if isinstance(instructions, str) else None,
    )
