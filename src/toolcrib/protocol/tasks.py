"""The tasks extension of 2026-07-28: calls that are answered with a task, and the methods about tasks.

A `TaskCall` is a tools/call whose tool runs in an asyncio task of its own. Where it takes long, the request
is answered with a task and the tool goes on; nothing runs twice. The state of tasks is in a file that all
processes of the server share: see `toolcrib.dispatch.task_store` and docs/decisions/0034-tasks.md.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolcrib.content import Result
from toolcrib.context import LOCAL, NO_CHANNEL, InputNeeded, Principal, Question
from toolcrib.context import Reply as PeerReply
from toolcrib.dispatch.middleware import LongCall
from toolcrib.dispatch.rate_limit import LogLimiter
from toolcrib.errors import CannotAskError, InsufficientScopeError
from toolcrib.protocol import messages, questions
from toolcrib.protocol.calls import AwaitedResult, Peer, ToolCall, read_options
from toolcrib.protocol.messages import INTERNAL_ERROR, Id, Reply, RPCError, invalid_params
from toolcrib.protocol.modern import method_not_found
from toolcrib.protocol.revisions import Revision
from toolcrib.validation import codec

if TYPE_CHECKING:
    from toolcrib.config.settings import Tasks
    from toolcrib.dispatch.middleware import Call
    from toolcrib.dispatch.task_store import Signals, Status, TaskRow, TaskStore
    from toolcrib.protocol.engine import Engine
    from toolcrib.protocol.subscriptions import Subscription

logger = logging.getLogger("toolcrib")

EXTENSION = "io.modelcontextprotocol/tasks"
NOTE_S = 0.25
"""The least time between two writes of a task's status message."""
RETRY_S = 1.0
"""How often the end of a task is written again, where the file cannot be written."""
CLOSE_S = 1.0
MAX_MESSAGE = 1_000
MAX_ID = 64
MAX_WATCHED = 100
"""Tasks that one subscription may name."""
MAX_WATCHED_IN_ALL = 2_000
"""Tasks that the subscriptions of a process follow, counted once for each."""

Params = dict[str, Any]


def declares_tasks(capabilities: Mapping[str, Any]) -> bool:
    """Return whether a client declares the extension in its request."""
    extensions = capabilities.get("extensions")
    return isinstance(extensions, Mapping) and isinstance(extensions.get(EXTENSION), Mapping)


def missing_extension(subject: str) -> RPCError:
    data: dict[str, Any] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
    problem = f"{subject} requires a client that declares the extension {EXTENSION}"
    return RPCError(messages.MISSING_CAPABILITY, problem, data=data)


# --- a call that may become a task -------------------------------------------------------------------


class CreatedTask(Result):
    """Stands for the result of a call that has become a task."""

    def __init__(self, row: TaskRow) -> None:
        super().__init__()
        self.row = row


class TaskCall(ToolCall):
    """One tools/call that may become a task. As a channel it speaks to the client until then, and through the
    file from then on."""

    _work: asyncio.Task[Result]
    _begun: asyncio.Future[None]
    _call: Call

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.task_id = ""
        self._converted: asyncio.Future[bool] | None = None
        self._is_stopped = False
        self._keys: set[str] = set()
        self._waiting: dict[str, asyncio.Future[bytes]] = {}
        self._message = ""
        self._note_timer: asyncio.TimerHandle | None = None
        self._noted_at = 0.0

    # --- running ---

    def _dispatch(self) -> Coroutine[Any, Any, Result]:
        return self._run()

    async def _run(self) -> Result:
        settings = self.engine.tasks.settings
        self._begun = asyncio.get_running_loop().create_future()
        long = LongCall(settings.timeout_s, self._begin)
        calling = self.engine.dispatcher.call_long(self.name, self.arguments, self.peer.principal, self, long)
        work = self._work = asyncio.create_task(calling, name=f"call of {self.name}")
        try:
            await asyncio.wait((work, self._begun), return_when=asyncio.FIRST_COMPLETED)
            if not work.done() and not self._is_task_at_once:
                await asyncio.wait((work,), timeout=settings.patience_s)
            if not work.done() and (row := await self._convert()) is not None:
                return CreatedTask(row)
            await asyncio.wait((work,))
            return work.result()
        except asyncio.CancelledError:
            if not work.done():
                work.cancel()
                await asyncio.wait((work,))
            if not work.cancelled():
                work.exception()  # mark as retrieved
            raise

    def _begin(self, call: Call) -> None:
        self._call = call
        if not self._begun.done():
            self._begun.set_result(None)

    @property
    def _is_task_at_once(self) -> bool:
        return self._call.tool is not None and self._call.tool.options.task == "always"

    async def _convert(self) -> TaskRow | None:
        """Make a task of the call. Return None where it has to stay a call."""
        converted = self._converted = asyncio.get_running_loop().create_future()
        row: TaskRow | None = None
        try:
            row = await self.engine.tasks.create(self, self._call)
        finally:
            converted.set_result(row is not None)
        return row

    async def finish(self) -> None:
        """Write the end of the task when the tool has ended."""
        await asyncio.wait((self._work,))
        if self._note_timer is not None:
            self._note_timer.cancel()
        try:
            status, outcome = self._find_outcome()
        except Exception:
            logger.exception("the end of a call of '%s' cannot be stored", self.name)
            status, outcome = "failed", _encode_error(RPCError(INTERNAL_ERROR, "Internal error"))
        await self.engine.tasks.finish(self.task_id, status, outcome)

    def _find_outcome(self) -> tuple[Status, bytes | None]:
        work = self._work
        if work.cancelled():
            return "cancelled", None
        error = work.exception()
        if isinstance(error, InputNeeded):
            problem = "The tool wants an answer to something it did not ask."
            return "failed", _encode_error(RPCError(INTERNAL_ERROR, problem))
        if error is not None:
            raise error
        result = work.result()
        reply = None if result.error is None else self._error_reply(result.error)
        if reply is not None:
            return "failed", _member(reply, self.id, "error")
        return "completed", _member(super()._encode(result), self.id, "result")

    def _encode(self, result: Result) -> Reply:
        if not isinstance(result, CreatedTask):
            return super()._encode(result)
        task = {"resultType": "task", **self.engine.tasks.describe(result.row)}
        return Reply(messages.encode_result(self.id, codec.write({**task, "_meta": self.engine.server_meta})))

    def stop(self) -> None:
        """Cancel the tool. What it returns is dropped."""
        if not self._is_stopped and not self._work.done():
            self._is_stopped = True  # once: a second cancellation would cut off the tool's clean-up
            self._work.get_loop().call_soon_threadsafe(self._work.cancel)

    # --- the channel of the call ---

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        share = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
        self._message = (message or share)[:MAX_MESSAGE]
        if not self.task_id:
            super().progress(progress, total, message)
        elif self._note_timer is None:
            loop = asyncio.get_running_loop()
            self._note_timer = loop.call_at(self._noted_at + NOTE_S, self.write_message)

    def write_message(self) -> None:
        """Write what the tool has last said about its progress."""
        self._note_timer = None
        self._noted_at = asyncio.get_running_loop().time()
        id_, message = self.task_id, self._message
        if message:
            self.engine.tasks.store.post(lambda file: file.note(id_, message))

    def log(self, level: str, data: Any) -> None:
        if self.task_id:
            NO_CHANNEL.log(level, data)  # a task has no stream for log messages
        else:
            super().log(level, data)

    def close_stream(self) -> None:
        if not self.task_id:
            super().close_stream()

    async def ask(self, asked: Mapping[str, Question]) -> Mapping[str, PeerReply]:
        if self._converted is None or not await asyncio.shield(self._converted):
            return await super().ask(asked)
        for question in asked.values():
            questions.check_capability(question, self.capabilities, self.revision)
        replies = self._take_answers(asked)
        unanswered = {key: question for key, question in asked.items() if key not in replies}
        if unanswered:
            replies |= await self._ask_in_task(unanswered)
        return {key: replies[key] for key in asked}

    def _take_answers(self, asked: Mapping[str, Question]) -> dict[str, PeerReply]:
        """Return answers that came with the request, each once."""
        replies: dict[str, PeerReply] = {}
        for key, question in asked.items():
            if self.answers and (reply := questions.from_wire(question, self.answers.pop(key, None))):
                replies[key] = reply
        return replies

    async def _ask_in_task(self, asked: Mapping[str, Question]) -> dict[str, PeerReply]:
        """Suspend the tool until the questions are answered by tasks/update."""
        loop, store, id_ = asyncio.get_running_loop(), self.engine.tasks.store, self.task_id
        keys = {self._new_key(name): name for name in asked}
        waiting = {key: loop.create_future() for key in keys}
        requests = {key: codec.encode(_request_of(asked[name])) for key, name in keys.items()}
        self._waiting |= waiting
        try:
            await store.run(lambda file: file.ask(id_, requests))
            await asyncio.wait(waiting.values())
        except OSError:
            raise CannotAskError("Cannot ask the user: the question cannot be stored.") from None
        finally:
            for key in waiting:
                del self._waiting[key]
            if unanswered := [key for key, future in waiting.items() if not future.done()]:
                store.post(lambda file: file.withdraw(id_, unanswered))
        replies = {
            name: questions.from_wire(asked[name], codec.decode(waiting[key].result()))
            for key, name in keys.items()
        }
        return {name: reply for name, reply in replies.items() if reply is not None}

    def _new_key(self, name: str) -> str:
        """Return a key for a question that no question of this task has had."""
        key, number = name, 1
        while key in self._keys:
            number += 1
            key = f"{name}.{number}"
        self._keys.add(key)
        return key

    def receive_answers(self, answers: Mapping[str, bytes]) -> None:
        for key, answer in answers.items():
            future = self._waiting.get(key)
            if future is not None and not future.done():
                future.set_result(answer)


def _request_of(question: Question) -> dict[str, Any]:
    method, params = questions.to_wire(question)
    return {"method": method, "params": params}


def _encode_error(error: RPCError) -> bytes:
    return codec.write({"code": error.code, "message": error.message})


def _member(reply: Reply, id_: Id, name: str) -> bytes:
    """Return the JSON of the result or the error in a reply, without parsing it."""
    start = b'{"jsonrpc":"2.0","id":%b,"%b":' % (messages.encode_id(id_), name.encode())
    body = reply.body or b""
    if not body.startswith(start):
        raise ValueError(f"not a reply with '{name}'")
    return body[len(start) : -1]


# --- the tasks of a server ---------------------------------------------------------------------------


class TaskManager:
    """The tasks of one server: those that run in this process, and the file with all of them."""

    def __init__(self, engine: Engine, settings: Tasks | None) -> None:
        self._engine = engine
        self._given = settings
        self._running: dict[str, TaskCall] = {}
        self._finishing: set[asyncio.Task[None]] = set()
        self._followers: dict[str, set[Subscription]] = {}
        self._warnings = LogLimiter(1, 60.0)

    @cached_property
    def settings(self) -> Tasks:
        from toolcrib.config.settings import Tasks  # start-up time: few servers have tasks

        return self._given or Tasks()

    @cached_property
    def store(self) -> TaskStore:
        from toolcrib.dispatch.task_store import TaskStore  # delayed: loads SQLite

        return TaskStore(Path(self.settings.file).absolute(), self._receive_signals)

    @property
    def is_open(self) -> bool:
        """Whether the store was used."""
        return "store" in self.__dict__

    def choose(self, name: str, principal: Principal, capabilities: Mapping[str, Any]) -> type[ToolCall]:
        """Return the class for a call of a tool. Raise RPCError where the client cannot follow the task that
        the tool always is."""
        dispatcher = self._engine.dispatcher
        tool = dispatcher.registry.try_get(name)
        if tool is None or tool.options.task == "never" or not dispatcher.is_visible(principal, tool):
            return ToolCall
        if declares_tasks(capabilities):
            return TaskCall
        if tool.options.task == "always":
            raise missing_extension(f"Tool '{tool.name}'")
        return ToolCall

    # --- the life of a task ---

    async def create(self, request: TaskCall, call: Call) -> TaskRow | None:
        """Store a running call as a task. Return None, and log why, where that is not possible."""
        from toolcrib.dispatch.task_store import NewTask, TooManyTasksError  # delayed: loads SQLite

        settings, principal = self.settings, request.peer.principal
        digest = codec.digest(request.arguments or {})
        task = NewTask(principal.binding, call.name, digest, round(settings.ttl_s * 1000))
        most = None if principal is LOCAL else settings.max_open_per_principal  # it stands for many clients
        try:
            row = await self.store.create(task, settings.max_open, most)
            request.task_id = row.id
            self._running[row.id] = request
            request.write_message()
            if (pipeline := self._engine.dispatcher.pipeline) is not None:
                await pipeline.announce_task(call)
        except TooManyTasksError as error:
            self._warn("a call of '%s' does not become a task: %s", request.name, error)
            return None
        except OSError as error:
            self.store.discard(task.id)  # it may be written after we have stopped waiting
            self._warn("a call of '%s' does not become a task: %s", request.name, error)
            return None
        except BaseException:  # the client has left: nobody would ask for the task
            self._running.pop(task.id, None)
            self.store.discard(task.id)
            raise
        finishing = asyncio.create_task(request.finish())
        self._finishing.add(finishing)
        finishing.add_done_callback(self._finishing.discard)
        return row

    async def finish(self, id_: str, status: Status, outcome: bytes | None) -> None:
        """Write the end of a task, until it is written or the task has expired."""
        until, most = time.monotonic() + self.settings.ttl_s, self.settings.max_kept_bytes
        try:
            while time.monotonic() < until and id_ in self._running:
                try:
                    dropped = await self.store.run(lambda file: file.finish(id_, status, outcome, most))
                    if dropped:
                        self._warn("%d ended tasks expired early: max_kept_bytes is reached", dropped)
                    return
                except OSError as error:
                    self._warn("the end of a task cannot be written: %s", error)
                    await asyncio.sleep(RETRY_S)
        finally:
            self._running.pop(id_, None)
            self.store.open.discard(id_)

    async def find(self, id_: str, principal: Principal) -> TaskRow:
        """Return the state of a task. Raise RPCError for one that is unknown, expired, or somebody else's;
        InsufficientScopeError where the caller lacks a scope that its tool requires."""
        row: TaskRow | None = None
        if len(id_) <= MAX_ID:
            row = await self.run(lambda file: file.find(id_, principal.binding))
        if row is None or not self._may_read(principal, row.tool):
            raise invalid_params("unknown or expired task")
        return row

    def _may_read(self, principal: Principal, tool: str) -> bool:
        dispatcher = self._engine.dispatcher
        return dispatcher.may_read(principal, dispatcher.registry.try_get(tool))

    async def run(self, act: Callable[[Any], Any]) -> Any:
        """Do something with the file for a client. Raise RPCError where it cannot be used."""
        try:
            return await self.store.run(act)
        except OSError as error:
            self._warn("a request about a task failed: %s", error)
            problem = "The tasks of this server cannot be read now: try again later"
            raise RPCError(INTERNAL_ERROR, problem, status=503) from None

    def describe(self, row: TaskRow) -> dict[str, Any]:
        """Return a task as tasks/get shows it."""
        task: dict[str, Any] = {
            "taskId": row.id,
            "status": row.status,
            "createdAt": _format_time(row.created_ms),
            "lastUpdatedAt": _format_time(row.updated_ms),
            "ttlMs": row.ttl_ms,
            "pollIntervalMs": round(self.settings.poll_s * 1000),
        }
        if row.message is not None:
            task["statusMessage"] = row.message
        if row.outcome is not None:
            task["result" if row.status == "completed" else "error"] = codec.raw(row.outcome)
        if row.questions:
            task["inputRequests"] = {key: codec.raw(request) for key, request in row.questions.items()}
        return task

    def _receive_signals(self, signals: Signals) -> None:
        for id_ in signals.ended:
            if (call := self._running.get(id_)) is not None:
                call.stop()
        for id_, answers in signals.answers.items():
            if (call := self._running.get(id_)) is not None:
                call.receive_answers(answers)
        for row in signals.changed:
            self._notify(row)

    def _warn(self, text: str, *details: object) -> None:
        if self._warnings.take(time.monotonic()):
            logger.warning(f"tasks: {text}", *details)

    # --- subscriptions ---

    async def resolve(self, ids: list[str], principal: Principal) -> list[str]:
        """Return those of the tasks that the principal may read. Raise RPCError."""
        tools = await self.run(lambda file: file.find_tools(ids, principal.binding))
        return [id_ for id_ in ids if id_ in tools and self._is_readable(principal, tools[id_])]

    def _is_readable(self, principal: Principal, tool: str) -> bool:
        try:
            return self._may_read(principal, tool)
        except InsufficientScopeError:
            return False

    def follow(self, subscription: Subscription, ids: list[str]) -> None:
        """Notify a subscription of the state of tasks, now and when they change. Raise RPCError."""
        if sum(map(len, self._followers.values())) + len(ids) > MAX_WATCHED_IN_ALL:
            problem = "Too many tasks are followed: ask for their state with tasks/get"
            raise RPCError(INTERNAL_ERROR, problem, status=429)
        for id_ in ids:
            self._followers.setdefault(id_, set()).add(subscription)
            self.store.watched[id_] = 0
        self.store.wake()

    def unfollow(self, subscription: Subscription, ids: list[str]) -> None:
        for id_ in ids:
            followers = self._followers.get(id_, set())
            followers.discard(subscription)
            if not followers:
                self._followers.pop(id_, None)
                self.store.watched.pop(id_, None)

    def _notify(self, row: TaskRow) -> None:
        if self.store.watched.get(row.id) in (None, row.version):
            return
        self.store.watched[row.id] = row.version
        for subscription in list(self._followers.get(row.id, ())):
            try:
                if self._is_readable(subscription.peer.principal, row.tool):
                    subscription.notify("notifications/tasks", self.describe(row))
            except Exception as error:  # as in `Engine._announce`
                logger.debug("a client was not notified of a task: %s", type(error).__name__)

    # --- the end ---

    async def close(self) -> None:
        """Fail the tasks of this process, and stop their tools."""
        if not self.is_open:
            return
        await self.store.leave()
        for call in list(self._running.values()):
            call.stop()
        loop = asyncio.get_running_loop()
        if finishing := [task for task in self._finishing if task.get_loop() is loop]:
            await asyncio.wait(finishing, timeout=CLOSE_S)
        self._running.clear()
        await self.store.close()


def _format_time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# --- the methods -------------------------------------------------------------------------------------


def _request(
    engine: Engine,
    peer: Peer,
    id_: Id,
    revision: Revision,
    method: str,
    params: Params,
    act: Callable[[str], Coroutine[Any, Any, dict[str, Any]]],
) -> AwaitedResult:
    """Return the request that does `act` with the id of the task."""
    if not engine.dispatcher.registry.has_tasks:
        raise method_not_found(method)
    read_options(params)
    if not declares_tasks(params["_meta"][messages.CAPABILITIES]):
        raise missing_extension(method)
    task_id = params.get("taskId")
    if type(task_id) is not str:
        raise invalid_params("taskId is required, and must be a string")
    return AwaitedResult(engine, peer, id_, revision, act(task_id))


def get_task(engine: Engine, peer: Peer, id_: Id, revision: Revision, params: Params) -> AwaitedResult:
    """Return the state of a task."""
    tasks = engine.tasks

    async def act(task_id: str) -> dict[str, Any]:
        return tasks.describe(await tasks.find(task_id, peer.principal))

    return _request(engine, peer, id_, revision, "tasks/get", params, act)


def update_task(engine: Engine, peer: Peer, id_: Id, revision: Revision, params: Params) -> AwaitedResult:
    """Answer questions of a task. Answers to questions that are not open are ignored."""
    tasks, binding, given = engine.tasks, peer.binding, params.get("inputResponses")

    async def act(task_id: str) -> dict[str, Any]:
        if type(given) is not dict or len(codec.write(given)) > questions.MAX_ANSWERS_BYTES:
            most = questions.MAX_ANSWERS_BYTES
            raise invalid_params(f"inputResponses must be an object of at most {most} bytes")
        row = await tasks.find(task_id, peer.principal)
        answers: dict[str, bytes] = {}
        for key in given.keys() & row.questions.keys():
            question = questions.read_request(codec.decode(row.questions[key]))
            if questions.from_wire(question, given[key]) is None:
                raise invalid_params(f"the answer to '{key}' does not fit the question")
            answers[key] = codec.write(given[key])
        if answers:
            await tasks.run(lambda file: file.answer(task_id, binding, answers))
        return {}

    return _request(engine, peer, id_, revision, "tasks/update", params, act)


def cancel_task(engine: Engine, peer: Peer, id_: Id, revision: Revision, params: Params) -> AwaitedResult:
    """Cancel a task; one that has ended stays as it is."""
    tasks, binding = engine.tasks, peer.binding

    async def act(task_id: str) -> dict[str, Any]:
        await tasks.find(task_id, peer.principal)
        await tasks.run(lambda file: file.cancel(task_id, binding))
        return {}

    return _request(engine, peer, id_, revision, "tasks/cancel", params, act)


def tasks_capability(engine: Engine) -> Mapping[str, Any]:
    """Return the extension, where a tool can be a task."""
    registry = engine.dispatcher.registry
    if not registry.has_tasks or all(tool.options.task == "never" for tool in registry.published()):
        return {}
    return {"extensions": {EXTENSION: {}}}


def read_task_ids(engine: Engine, wanted: Mapping[str, Any], capabilities: Mapping[str, Any]) -> list[str]:
    """Return the tasks that a subscription is to be notified of. Raise RPCError."""
    ids = wanted.get("taskIds")
    if ids is None or not engine.dispatcher.registry.has_tasks:
        return []
    if not declares_tasks(capabilities):
        raise missing_extension("The filter taskIds")
    if type(ids) is not list or len(ids) > MAX_WATCHED or any(type(item) is not str for item in ids):
        raise invalid_params(f"taskIds must be a list of at most {MAX_WATCHED} strings")
    if any(len(item) > MAX_ID for item in ids):
        raise invalid_params(f"an id in taskIds is longer than {MAX_ID} characters")
    return list(dict.fromkeys(ids))
