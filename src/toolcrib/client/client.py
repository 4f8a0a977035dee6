"""MCP client: one connection to one server, of any protocol version, over any transport."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from toolcrib import __version__
from toolcrib.client.changes import ChangeWatcher, OnChange, OnUpdate
from toolcrib.client.entries import (
    MAIN_FILE,
    Completion,
    PromptResult,
    RemotePrompt,
    RemoteResource,
    RemoteSkill,
    RemoteTemplate,
    RemoteTool,
    ResourceContents,
    parse_prompt,
    parse_resource,
    parse_skill,
    parse_template,
    parse_tool,
    read_completion,
    read_contents,
    read_items,
    read_prompt_result,
    read_result,
    verify_file,
    write_arguments,
    write_reference,
)
from toolcrib.client.http import HttpTransport, LegacySseTransport, argument_headers
from toolcrib.client.session import (
    LEGACY,
    NO_LISTENERS,
    VERSIONS,
    Ask,
    CannotAnswerError,
    InputHandlers,
    Listeners,
    OnLog,
    OnProgress,
    Peer,
    Sample,
    Session,
    negotiate,
)
from toolcrib.client.tasks import EXTENSION as TASKS
from toolcrib.client.tasks import TaskChannel, TaskHandle
from toolcrib.client.transport import SessionEndedError, StdioTransport, Transport
from toolcrib.content import Result
from toolcrib.context import Root
from toolcrib.errors import (
    ClientError,
    ConfigurationError,
    InvalidResponseError,
    RemoteError,
    ToolNotFoundError,
    TransportError,
    missing_attribute,
)
from toolcrib.options import SKILLS, merge_arguments

logger = logging.getLogger("toolcrib")

T = TypeVar("T")

DEFAULT_TIMEOUT_S = 60.0
MAX_ROUNDS = 10
"""How many rounds of questions one call may take."""
MAX_PAGES = 1000
MAX_ENTRIES = 100_000
_MAX_QUESTIONS = 100
_LISTS = {
    "tools/list": ("tools", "tool", "name"),
    "resources/list": ("resources", "resource", "uri"),
    "resources/templates/list": ("resourceTemplates", "resource template", "uri_template"),
    "resources/directory/read": ("resources", "resource", "uri"),
    "prompts/list": ("prompts", "prompt", "name"),
    "skills/list": ("skills", "skill", "uri"),
}
"""What each method lists: the key of the entries, what one is called, and the attribute that is its name."""
_HEADER_MISMATCH, _UNKNOWN_METHOD, _INVALID_PARAMS = -32020, -32601, -32602
_TEMPORARY_STATUSES = (408, 425, 429)
_UNKNOWN_TOOL = re.compile(r"(unknown|no such|not found|does not exist|doesn't exist)", re.IGNORECASE)


OTHER_ATTRIBUTES = {
    "call_tool": "use client.call(name, arguments)",
    "initialize_result": "use client.server_info, client.capabilities or client.instructions",
    "read_resource": "use client.read(uri)",
}
"""What clients of mcp and fastmcp have under other names."""


class Client:
    """A connection to one MCP server.

    The target is a URL, a command as a list of arguments (no shell), or a `Transport`. `protocol` is "auto"
    or the version to require. `on_ask`, `on_sample` and `roots` answer requests from the server. With
    `tasks=False` the server is told not to make tasks of calls (2026-07-28).
    """

    def __init__(
        self,
        target: str | Sequence[str] | Transport,
        *,
        protocol: str = "auto",
        headers: Mapping[str, str] | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        on_ask: Ask | None = None,
        on_sample: Sample | None = None,
        roots: Iterable[str | Path | Root] | None = None,
        info: Mapping[str, Any] | None = None,
        tasks: bool = True,
    ) -> None:
        if protocol != "auto" and protocol not in VERSIONS:
            raise ConfigurationError(
                f"unknown protocol version {protocol!r}",
                key="protocol",
                hint=f"supported: auto, {', '.join(VERSIONS)}",
            )
        self.timeout_s = timeout_s
        self._protocol = protocol
        self._transport = _make_transport(target, headers)
        self._input_handlers = InputHandlers(on_ask, on_sample, roots)
        self._info = dict(info or {"name": "toolcrib", "version": __version__})
        self._extensions: dict[str, Any] = {TASKS: {}} if tasks else {}
        self._session: Session | None = None
        self._peer: Peer | None = None
        self._watcher: ChangeWatcher | None = None
        self._reconnecting = asyncio.Lock()
        self._tools: dict[str, RemoteTool] = {}
        self._log_requested = False

    if not TYPE_CHECKING:  # a type checker would take every name for an attribute

        def __getattr__(self, name: str) -> Any:
            raise missing_attribute("Client", name, OTHER_ATTRIBUTES.get(name), self)

    # --- connecting ---

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def connect(self) -> None:
        """Connect and negotiate the protocol version. Raises ClientError."""
        try:
            try:
                await self._connect_with(self._protocol)
            except ClientError as error:
                await self._retry_connect(error)
            if self._session is not None and self._session.capabilities and not self._get_peer().is_modern:
                await self._transport.listen()  # server requests arrive on a separate stream
        except BaseException:
            await self.close()
            raise

    async def _connect_with(self, protocol: str) -> None:
        self._session = Session(
            self._transport, self._info, self._input_handlers, self._changed, self._extensions
        )
        await self._transport.start(self._session)
        self._peer = await negotiate(self._session, protocol, self.timeout_s)

    async def _retry_connect(self, error: ClientError) -> None:
        """Retry as an old server needs it: some exit on unknown requests, some only speak HTTP+SSE."""
        old, version = self._transport, LEGACY[0] if self._protocol == "auto" else self._protocol
        if isinstance(old, StdioTransport) and self._protocol == "auto" and old.has_exited:
            other: Transport = old
        elif (
            isinstance(old, HttpTransport)
            and isinstance(error, TransportError)
            and error.status in (404, 405)
        ):
            other = LegacySseTransport(old.address, headers=old.headers)
        else:
            raise error
        await self.close()
        self._transport = other
        try:
            await self._connect_with(version)
        except ClientError as failure:
            raise (failure if other is old else error) from None

    async def close(self) -> None:
        """Disconnect; pending requests fail. Safe to call twice."""
        session, self._session, self._peer, self._watcher = self._session, None, None, None
        try:
            if session is not None:
                await session.close()
        finally:
            await self._transport.close()

    # --- the server ---

    @property
    def label(self) -> str:
        """The server as shown in messages."""
        return self._transport.label

    @property
    def protocol_version(self) -> str:
        return self._get_peer().protocol_version

    @property
    def server_info(self) -> Mapping[str, Any]:
        return self._get_peer().server_info

    @property
    def capabilities(self) -> Mapping[str, Any]:
        return self._get_peer().capabilities

    @property
    def instructions(self) -> str | None:
        return self._get_peer().instructions

    def _get_peer(self) -> Peer:
        if self._peer is None:
            raise TransportError(f"{self.label}: not connected", status=None)
        return self._peer

    # --- requests ---

    async def ping(self) -> None:
        """Check that the server responds; raise ClientError if not."""
        await self._request("server/discover" if self._get_peer().is_modern else "ping", {})

    async def list_tools(self) -> list[RemoteTool]:
        """Return the tools of all pages. A tool with an invalid definition is skipped with a warning."""
        over_http = self._transport.has_request_streams and self._get_peer().is_modern

        def parse(item: Mapping[str, Any]) -> RemoteTool:
            return parse_tool(item, self.label, over_http=over_http)

        found = await self._list("tools/list", parse)
        self._tools = {tool.name: tool for tool in found}
        return found

    async def list_resources(self) -> list[RemoteResource]:
        """Return the resources of all pages. Invalid entries are skipped with a warning."""
        return await self._list("resources/list", parse_resource)

    async def list_resource_templates(self) -> list[RemoteTemplate]:
        """Return the templates of all pages. Invalid entries are skipped with a warning."""
        return await self._list("resources/templates/list", parse_template)

    async def list_prompts(self) -> list[RemotePrompt]:
        """Return the prompts of all pages. Invalid entries are skipped with a warning."""
        return await self._list("prompts/list", parse_prompt)

    async def _list(self, method: str, parse: Callable[[Mapping[str, Any]], T], **params: Any) -> list[T]:
        """Return the valid entries of all pages. The first of two with the same name counts."""
        key, noun, name_key = _LISTS[method]
        found: dict[str, T] = {}
        async for page in self._list_pages(method, params):
            for item in read_items(page.get(key), self.label, noun, parse):
                name = getattr(item, name_key)
                if name in found:
                    logger.warning(
                        "%s lists the %s '%.100s' twice; the second is ignored", self.label, noun, name
                    )
                    continue
                found[name] = item
                if len(found) > MAX_ENTRIES:
                    raise InvalidResponseError(f"{self.label} lists more than {MAX_ENTRIES} {noun}s")
        return list(found.values())

    async def _list_pages(self, method: str, params: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        capability = method.partition("/")[0]
        seen: set[str] = set()
        for _ in range(MAX_PAGES):
            try:
                page = await self._request(method, params)
            except RemoteError as error:
                if error.rpc_code == _UNKNOWN_METHOD and capability not in self.capabilities:
                    return
                raise
            yield page
            cursor = page.get("nextCursor")
            if cursor is None:
                return
            if not isinstance(cursor, str) or cursor in seen:
                raise InvalidResponseError(f"{self.label} repeats a {method} cursor")
            seen.add(cursor)
            params["cursor"] = cursor
        raise InvalidResponseError(f"{self.label} sends more than {MAX_PAGES} pages of {method}")

    async def call(
        self,
        name: str,
        /,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout_s: float | None = None,
        on_progress: OnProgress | None = None,
        on_log: OnLog | None = None,
        **keywords: Any,
    ) -> Result:
        """Call a tool. Raises ToolNotFoundError and ClientError; an error of the tool itself is a result.

        Arguments are a dict, or keywords. An argument with the name of an option here needs the dict.
        `timeout_s` does not count the time that a person needs to answer questions. If the server makes a
        task of the call, this waits for its end, without a `timeout_s` for as long as it takes. A task that
        is not waited for any longer is cancelled.
        """
        if keywords:
            arguments = merge_arguments(arguments, keywords, ("timeout_s", "on_progress", "on_log"))
        listeners = await self._listen_to(on_progress, on_log)
        started, left_s = await self._start_call(name, arguments, timeout_s, listeners)
        if isinstance(started, Result):
            return started
        try:
            return await started.result(timeout_s=None if timeout_s is None else left_s)
        except BaseException:
            if not started.is_done:
                await started.cancel_quietly()
            raise

    async def start(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, timeout_s: float | None = None
    ) -> TaskHandle:
        """Call a tool without waiting for the end of its task. Raises as `call` does.

        The server decides whether the call becomes a task. If not, this waits for its result, which the
        handle then has already.
        """
        started, _ = await self._start_call(name, arguments, timeout_s, NO_LISTENERS)
        if isinstance(started, Result):
            return TaskHandle.ended(started, self._task_channel())
        return started

    def task(self, task_id: str) -> TaskHandle:
        """Return the handle of a task that was started earlier, by this client or another."""
        return TaskHandle.of_id(task_id, self._task_channel())

    async def _start_call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None,
        timeout_s: float | None,
        listeners: Listeners,
    ) -> tuple[Result | TaskHandle, float]:
        """Return the result of a call or its task, and the time left."""
        params = {"name": name, "arguments": dict(arguments or {})}

        async def send(params: dict[str, Any], limit_s: float) -> dict[str, Any]:
            return await self._call_once(params, limit_s, listeners)

        kinds = ("complete", "task") if self._extensions else ("complete",)
        result, left_s = await self._run_rounds(send, params, timeout_s, kinds)
        if self._get_peer().is_modern and result.get("resultType") == "task":
            return TaskHandle(result, self._task_channel()), left_s
        return read_result(result, self.label), left_s

    def _task_channel(self) -> TaskChannel:
        return TaskChannel(self.label, self._request, self._answer_all, self._may_retry)

    def _may_retry(self, error: ClientError) -> bool:
        """Return whether a request that failed may succeed when it is sent again."""
        if self._session is None or self._session.is_closed:
            return False
        status = error.status if isinstance(error, TransportError) else None
        return status is None or status >= 500 or status in _TEMPORARY_STATUSES

    async def read(
        self,
        uri: str,
        *,
        timeout_s: float | None = None,
        on_progress: OnProgress | None = None,
        on_log: OnLog | None = None,
    ) -> list[ResourceContents]:
        """Read a resource. It may have several items. Raises ClientError; RemoteError for an unknown URI."""
        result = await self._get("resources/read", {"uri": uri}, timeout_s, on_progress, on_log)
        return read_contents(result, self.label)

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout_s: float | None = None,
        on_progress: OnProgress | None = None,
        on_log: OnLog | None = None,
    ) -> PromptResult:
        """Get the messages of a prompt. Values that are not strings are sent as JSON. Raises ClientError."""
        params = {"name": name, "arguments": write_arguments(arguments or {})}
        result = await self._get("prompts/get", params, timeout_s, on_progress, on_log)
        return read_prompt_result(result, self.label)

    async def complete(
        self,
        ref: str | RemotePrompt | RemoteTemplate | Mapping[str, Any],
        argument: str,
        value: str,
        context: Mapping[str, str] | None = None,
    ) -> Completion:
        """Return values for an argument of a prompt or a template, of which `value` is typed already.

        `ref` is a prompt or its name, or a template or its URI template. `context` has the arguments that are
        chosen already. Raises ClientError.
        """
        params = {"ref": write_reference(ref), "argument": {"name": argument, "value": value}}
        if context:
            params["context"] = {"arguments": dict(context)}
        return read_completion(await self._request("completion/complete", params), self.label)

    # --- skills ---

    async def list_skills(self) -> list[RemoteSkill]:
        """Return the skills of all pages. Invalid entries are skipped with a warning.

        A server may serve skills that it does not list; `get_skill` finds them.
        """
        if self._skill_settings() is None:
            return []
        return await self._list("skills/list", parse_skill)

    async def get_skill(self, uri: str) -> RemoteSkill:
        """Return the current entry of a skill, by the URI of its SKILL.md. Raises ClientError."""
        if self._skill_settings() is None:
            raise ClientError(f"{self.label} has no skills")
        item = (await self._request("skills/get", {"uri": uri})).get("skill")
        try:
            skill = parse_skill(item if isinstance(item, Mapping) else {})
        except ValueError as error:
            raise InvalidResponseError(f"{self.label} returned an invalid skill: {error}") from None
        if skill.uri != uri:
            raise InvalidResponseError(f"{self.label} returned another skill than {uri[:200]}")
        return skill

    async def read_skill(self, skill: RemoteSkill, file: str = MAIN_FILE) -> ResourceContents:
        """Read a file of a skill, by its path or URI, and verify it.

        The content must have the size and digest of the entry, and SKILL.md its frontmatter; this needs
        PyYAML (`toolcrib[yaml]`). Raises ClientError, and ValueError for a file that the entry does not list.
        """
        uri = skill.uri_of(file)
        return verify_file(skill, uri, await self.read(uri), self.label)

    async def read_directory(self, uri: str) -> list[RemoteResource]:
        """Return the files and folders in a folder; a folder has the type `inode/directory`.

        Raises ClientError, also if the server does not support it.
        """
        if (self._skill_settings() or {}).get("directoryRead") is not True:
            raise ClientError(f"{self.label} does not support reading directories")
        return await self._list("resources/directory/read", parse_resource, uri=uri)

    def _skill_settings(self) -> Mapping[str, Any] | None:
        """Return the settings of the skills extension, None if the server does not have it."""
        extensions = self.capabilities.get("extensions")
        settings = extensions.get(SKILLS) if isinstance(extensions, Mapping) else None
        return settings if isinstance(settings, Mapping) else None

    async def request(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send a request of any method, such as one that `MCPServer.add_method` serves; return its result."""
        return await self._request(method, params or {})

    # --- changes ---

    def on_tools_changed(self, callback: OnChange) -> asyncio.Future[bool]:
        """Call `callback`, a function or coroutine function, whenever the server's tools change.

        The returned future is True once the server has agreed to announce changes, False if it never will.
        """
        return self._get_watcher().watch_list("tools", callback)

    def on_resources_changed(self, callback: OnChange) -> asyncio.Future[bool]:
        """Call `callback` whenever the server's list of resources or templates changes."""
        return self._get_watcher().watch_list("resources", callback)

    def on_prompts_changed(self, callback: OnChange) -> asyncio.Future[bool]:
        """Call `callback` whenever the server's list of prompts changes."""
        return self._get_watcher().watch_list("prompts", callback)

    async def subscribe(self, uri: str, callback: OnUpdate) -> bool:
        """Call `callback`, a function or coroutine function, with the URI whenever this resource changes.

        Returns False if the server does not announce changes of it. Several callbacks for one resource are
        possible; `unsubscribe` removes them all.
        """
        return await self._get_watcher().subscribe(uri, callback)

    async def unsubscribe(self, uri: str) -> None:
        """Remove all callbacks for a resource."""
        await self._get_watcher().unsubscribe(uri)

    def _get_watcher(self) -> ChangeWatcher:
        if self._watcher is None:
            self._watcher = ChangeWatcher(
                self._get_session(), self._get_peer(), self._request, self.timeout_s
            )
        return self._watcher

    # --- sending and answering ---

    async def _request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        timeout_s: float | None = None,
        headers: Mapping[str, str] | None = None,
        listeners: Listeners = NO_LISTENERS,
    ) -> dict[str, Any]:
        session, peer = self._get_session(), self._get_peer()
        limit_s = timeout_s or self.timeout_s
        try:
            return await session.request(
                method, params, timeout_s=limit_s, headers=headers, listeners=listeners
            )
        except SessionEndedError:
            async with self._reconnecting:
                if self._peer is peer:
                    self._peer = await negotiate(session, peer.protocol_version, self.timeout_s)
                    if self._watcher is not None:
                        self._watcher.session_renewed()
        return await session.request(method, params, timeout_s=limit_s, headers=headers, listeners=listeners)

    def _get_session(self) -> Session:
        if self._session is None:
            raise TransportError(f"{self.label}: not connected")
        return self._session

    def _changed(self, kind: str, uri: str | None) -> None:
        if self._watcher is not None:
            self._watcher.changed(kind, uri)

    async def _get(
        self,
        method: str,
        params: dict[str, Any],
        timeout_s: float | None,
        on_progress: OnProgress | None,
        on_log: OnLog | None,
    ) -> dict[str, Any]:
        """Send a request that the server may answer with questions."""
        listeners = await self._listen_to(on_progress, on_log)

        async def send(params: dict[str, Any], limit_s: float) -> dict[str, Any]:
            return await self._request(method, params, timeout_s=limit_s, listeners=listeners)

        return (await self._run_rounds(send, params, timeout_s))[0]

    async def _run_rounds(
        self,
        send: Callable[[dict[str, Any], float], Awaitable[dict[str, Any]]],
        params: dict[str, Any],
        timeout_s: float | None,
        kinds: tuple[str, ...] = ("complete",),
    ) -> tuple[dict[str, Any], float]:
        """Send a request, and again with answers as long as the server asks. Return the result, of one of
        these kinds, and the time left."""
        is_modern = self._get_peer().is_modern
        left_s = timeout_s or self.timeout_s
        answers: dict[str, Any] = {}
        for turn in range(MAX_ROUNDS):
            started = time.monotonic()
            result = await send({**params, **answers}, max(left_s, 0.001))
            left_s -= time.monotonic() - started
            kind = result.get("resultType", "complete") if is_modern else "complete"
            if kind in kinds:
                return result, left_s
            if kind != "input_required":
                raise InvalidResponseError(f"{self.label} returned the unknown resultType {kind!r:.40}")
            answers = await self._answer_inputs(result, turn)
        raise InvalidResponseError(f"{self.label} asked for input {MAX_ROUNDS} times without a result")

    async def _call_once(
        self, params: dict[str, Any], limit_s: float, listeners: Listeners
    ) -> dict[str, Any]:
        name = params["name"]
        try:
            return await self._send_call(params, limit_s, listeners)
        except RemoteError as error:
            if error.rpc_code == _HEADER_MISMATCH and self._get_peer().is_modern:
                await self.list_tools()  # the schema names the missing headers
                return await self._send_call(params, limit_s, listeners)
            about_name = error.rpc_code == _INVALID_PARAMS and name in error.message
            if about_name and name not in self._tools and _UNKNOWN_TOOL.search(error.message):
                raise ToolNotFoundError(name) from None
            raise

    async def _send_call(
        self, params: dict[str, Any], limit_s: float, listeners: Listeners
    ) -> dict[str, Any]:
        tool = self._tools.get(params["name"])
        headers = argument_headers(tool.header_arguments, params["arguments"]) if tool is not None else None
        return await self._request(
            "tools/call", params, timeout_s=limit_s, headers=headers, listeners=listeners
        )

    async def _answer_inputs(self, result: Mapping[str, Any], turn: int) -> dict[str, Any]:
        """Return the params of the next round: the state as received, and the answers."""
        questions, state = result.get("inputRequests"), result.get("requestState")
        again: dict[str, Any] = {} if state is None else {"requestState": state}
        if not questions and state is not None:
            await asyncio.sleep(min(0.05 * 2**turn, 2))  # the server asks to retry later
            return again
        if not isinstance(questions, Mapping) or not questions:
            raise InvalidResponseError(f"{self.label} requires input but asks no questions")
        return {**again, "inputResponses": await self._answer_all(questions)}

    async def _answer_all(self, questions: Mapping[str, Any]) -> dict[str, Any]:
        if len(questions) > _MAX_QUESTIONS:
            raise InvalidResponseError(f"{self.label} asks more than {_MAX_QUESTIONS} questions at once")
        replies: dict[str, Any] = {}
        for key, question in questions.items():
            question = question if isinstance(question, Mapping) else {}
            method = str(question.get("method"))
            try:
                replies[key] = await self._input_handlers.answer(method, question.get("params"))
            except CannotAnswerError as error:
                text = f"{self.label} asked for input that is not available: {error}"
                raise InvalidResponseError(text) from None
        return replies

    async def _listen_to(self, on_progress: OnProgress | None, on_log: OnLog | None) -> Listeners:
        peer = self._get_peer()
        # A legacy session has one log level; 2026-07-28 sends it with every request.
        if on_log and not (self._log_requested or peer.is_modern) and "logging" in peer.capabilities:
            self._log_requested = True
            try:
                await self._request("logging/setLevel", {"level": "debug"})
            except RemoteError as error:
                logger.debug("%s did not set its log level: %s", self.label, error)
        return Listeners(on_progress, on_log)


def _make_transport(target: str | Sequence[str] | Transport, headers: Mapping[str, str] | None) -> Transport:
    if isinstance(target, str):
        if not target.lower().startswith(("http://", "https://")):
            raise ConfigurationError(
                f"not a URL: {target!r:.100}",
                hint="pass a command as a list: ['python', 'server.py']",
            )
        return HttpTransport(target, headers=headers)
    if headers:
        raise ConfigurationError("headers are only supported for URLs", key="headers")
    if isinstance(target, Sequence):
        return StdioTransport(target)
    if not hasattr(target, "send"):
        raise ConfigurationError(
            f"a client cannot connect to {type(target).__name__}",
            hint="pass a URL or a command; for a server in this process use server.connect()",
        )
    return target
