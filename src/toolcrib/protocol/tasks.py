"""The tasks extension of 2026-07-28: calls that are answered with a task, and the methods about tasks.

A `TaskCall` is a tools/call whose tool runs in an asyncio task of its own. Where it takes long, the request
is answered with a task and the tool goes on; nothing runs twice. The state of tasks is in the `TaskStore` of
the server, which all its processes share: see `toolcrib.state` and docs/decisions/calls.md.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from toolcrib.content import Result
from toolcrib.context import LOCAL, NO_CHANNEL, InputNeeded, Principal, Question
from toolcrib.context import Reply as PeerReply
from toolcrib.errors import CannotAskError, InsufficientScopeError
from toolcrib.protocol import messages, questions
from toolcrib.protocol.calls import AwaitedResult, Peer, ToolCall, read_options
from toolcrib.protocol.messages import INTERNAL_ERROR, Id, Reply, RPCError, invalid_params
from toolcrib.protocol.modern import method_not_found
from toolcrib.protocol.revisions import Revision
from toolcrib.state.base import Changes, NewTask, Status, Task
from toolcrib.state.rate_limit import LogLimiter
from toolcrib.validation import codec

if TYPE_CHECKING:
    from toolcrib.config.settings import Tasks
    from toolcrib.dispatch.calls import Call
    from toolcrib.protocol.engine import Engine
    from toolcrib.protocol.subscriptions import Subscription
    from toolcrib.state.base import TaskStore

logger = logging.getLogger("toolcrib")

EXTENSION = "io.modelcontextprotocol/tasks"
NOTE_S = 0.25
"""The least time between two writes of a task's status message."""
RETRY_S = 1.0
"""How often the end of a task is written again if it cannot be written."""
RENEW_S = 2.0
"""How often the store is asked for changes that nobody has announced."""
TOPIC = "tasks"
CLOSE_S = 1.0
MAX_MESSAGE = 1_000
MAX_ID = 64
MAX_WATCHED = 100
"""Tasks that one subscription may name."""
MAX_WATCHED_IN_ALL = 2_000
"""Tasks that the subscriptions of a process follow, counted once for each."""

Params = dict[str, Any]
T = TypeVar("T")


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

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.task = task


class TaskCall(ToolCall):
    """One tools/call that may become a task. As a channel it speaks to the client until then, and through the
    store from then on."""

    sends_reply = False  # the tool may end long after the reply
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
        settings, principal = self.engine.tasks.settings, self.peer.principal
        self._begun = asyncio.get_running_loop().create_future()
        calling = self.engine.dispatcher.call_long(
            self.name,
            self.arguments,
            principal,
            self,
            on_start=self._begin,
            default_s=settings.timeout_s,
        )
        work = self._work = asyncio.create_task(calling, name=f"call of {self.name}")
        try:
            await asyncio.wait((work, self._begun), return_when=asyncio.FIRST_COMPLETED)
            if not work.done() and not self._is_task_at_once:
                await asyncio.wait((work,), timeout=settings.wait_s)
            if not work.done() and (created := await self._convert()) is not None:
                return CreatedTask(created)
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

    async def _convert(self) -> Task | None:
        """Make a task of the call. Return None where it has to stay a call."""
        converted = self._converted = asyncio.get_running_loop().create_future()
        created: Task | None = None
        try:
            created = await self.engine.tasks.create(self, self._call)
        finally:
            converted.set_result(created is not None)
        return created

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
        task = {"resultType": "task", **self.engine.tasks.describe(result.task)}
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
        if self._message:
            tasks = self.engine.tasks
            tasks.write_soon(tasks.store.note(self.task_id, self._message))

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
        loop, tasks, id_ = asyncio.get_running_loop(), self.engine.tasks, self.task_id
        keys = {self._new_key(name): name for name in asked}
        waiting = {key: loop.create_future() for key in keys}
        requests = {key: codec.encode(_request_of(asked[name])) for key, name in keys.items()}
        self._waiting |= waiting
        try:
            await tasks.store.ask(id_, requests)
            tasks.announce()
            await asyncio.wait(waiting.values())
        except OSError:
            raise CannotAskError("Cannot ask the user: the question cannot be stored.") from None
        finally:
            for key in waiting:
                del self._waiting[key]
            if unanswered := [key for key, future in waiting.items() if not future.done()]:
                tasks.write_soon(tasks.store.withdraw(id_, unanswered))
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
    """The tasks of one server: those that run in this process, and the store with all of them."""

    def __init__(self, engine: Engine, settings: Tasks | None) -> None:
        self._engine = engine
        self._given = settings
        self.running: dict[str, TaskCall] = {}
        self._background: set[asyncio.Task[Any]] = set()
        self._followers: dict[str, set[Subscription]] = {}
        self._seen: dict[str, int] = {}
        """The versions of followed tasks that their followers know."""
        self._unread: set[str] = set()
        """Followed tasks whose state is still to be read."""
        self._version = 0
        self._changed = asyncio.Event()
        self._watcher: asyncio.Task[None] | None = None
        self._warnings = LogLimiter(1, 60.0)

    @cached_property
    def settings(self) -> Tasks:
        from toolcrib.config.settings import Tasks  # start-up time: few servers have tasks

        return self._given or Tasks()

    @property
    def store(self) -> TaskStore:
        return self._engine.settings.state.engine.tasks

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

    async def create(self, request: TaskCall, call: Call) -> Task | None:
        """Store a running call as a task. Return None, and log why, if that is not possible."""
        settings, principal = self.settings, request.peer.principal
        digest = codec.digest(request.arguments or {})
        ttl_ms = round(settings.ttl_s * 1000)
        new = NewTask(secrets.token_urlsafe(16), principal.binding, call.name, "", digest, ttl_ms, None)
        most = None if principal is LOCAL else settings.max_open_per_principal  # it stands for many clients
        try:
            task = await self.store.create(new, queue=None, most=settings.max_open, most_own=most)
            if task is None:
                self._warn("a call of '%s' does not become a task: too many tasks are open", request.name)
                return None
            request.task_id = new.id
            self.running[new.id] = request
            self._watch()
            request.write_message()
            if (pipeline := self._engine.dispatcher.pipeline) is not None:
                await pipeline.announce_task(call)
        except OSError as error:
            self.write_soon(self.store.drop(new.id))  # it may be written after we have stopped waiting
            self._warn("a call of '%s' does not become a task: %s", request.name, error)
            return None
        except BaseException:  # the client has left: nobody would ask for the task
            self.running.pop(new.id, None)
            self.write_soon(self.store.drop(new.id))
            raise
        self._start(request.finish())
        return task

    def write_soon(self, writing: Coroutine[Any, Any, object]) -> None:
        """Write something to the store without waiting for it."""

        async def write() -> None:
            await self._write_or_warn(writing)
            self.announce()

        self._start(write())

    async def _write_or_warn(self, writing: Coroutine[Any, Any, object]) -> None:
        try:
            await writing
        except OSError as error:
            self._warn("cannot be written: %s", error)

    def announce(self) -> None:
        """Tell all processes that a task has changed."""
        self._engine.settings.state.bus.publish(TOPIC)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def finish(self, id_: str, status: Status, outcome: bytes | None) -> None:
        """Write the end of a task, until it is written or the task has expired."""
        until, most = time.monotonic() + self.settings.ttl_s, self.settings.max_kept_bytes
        try:
            while time.monotonic() < until and id_ in self.running:
                try:
                    await self.store.finish(id_, status, outcome, max_kept_bytes=most)
                    self.announce()
                    return
                except OSError as error:
                    self._warn("the end of a task cannot be written: %s", error)
                    await asyncio.sleep(RETRY_S)
        finally:
            self.running.pop(id_, None)

    async def find(self, id_: str, principal: Principal) -> Task:
        """Return the state of a task. Raise RPCError for one that is unknown, expired, or somebody else's;
        InsufficientScopeError if the caller lacks a scope that its tool requires."""
        task: Task | None = None
        if len(id_) <= MAX_ID:
            task = await self.use(self.store.find(id_, principal.binding))
        if task is None or not self._may_read(principal, task.new.tool):
            raise invalid_params("unknown or expired task")
        return task

    def _may_read(self, principal: Principal, tool: str) -> bool:
        dispatcher = self._engine.dispatcher
        return dispatcher.may_read(principal, dispatcher.registry.try_get(tool))

    async def use(self, request: Coroutine[Any, Any, T]) -> T:
        """Use the store for a client. Raise RPCError if it is not available."""
        try:
            return await request
        except OSError as error:
            self._warn("a request about a task failed: %s", error)
            problem = "The tasks of this server cannot be read now: try again later"
            raise RPCError(INTERNAL_ERROR, problem, status=503) from None

    def describe(self, task: Task) -> dict[str, Any]:
        """Return a task as tasks/get shows it."""
        status = "working" if task.status == "queued" else task.status
        shown: dict[str, Any] = {
            "taskId": task.new.id,
            "status": "input_required" if task.questions else status,
            "createdAt": _format_time(task.created_ms),
            "lastUpdatedAt": _format_time(task.updated_ms),
            "ttlMs": task.new.ttl_ms,
            "pollIntervalMs": round(self.settings.poll_s * 1000),
        }
        if task.message is not None:
            shown["statusMessage"] = task.message
        if task.outcome is not None:
            shown["result" if task.status == "completed" else "error"] = codec.raw(task.outcome)
        if task.questions:
            shown["inputRequests"] = {key: codec.raw(request) for key, request in task.questions.items()}
        return shown

    def _warn(self, text: str, *details: object) -> None:
        if self._warnings.take(time.monotonic()):
            logger.warning(f"tasks: {text}", *details)

    # --- changes, of this process and others ---

    def _watch(self) -> None:
        """Look for changes while a task runs here or is followed."""
        loop = asyncio.get_running_loop()
        if self._watcher is None or self._watcher.done() or self._watcher.get_loop() is not loop:
            self._changed = asyncio.Event()
            self._watcher = loop.create_task(self._read_changes(self._changed))
        self._changed.set()

    async def _read_changes(self, changed: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()

        def wake(_: bytes | None) -> None:
            loop.call_soon_threadsafe(changed.set)

        end = self._engine.settings.state.bus.subscribe(TOPIC, wake)
        try:
            while self.running or self._followers:
                try:
                    async with asyncio.timeout(RENEW_S):
                        await changed.wait()
                except TimeoutError:
                    await self._write_or_warn(self.store.renew())
                changed.clear()
                try:
                    await self._read_once()
                except OSError as error:
                    self._warn("cannot be read: %s", error)
        finally:
            end()

    async def _read_once(self) -> None:
        unread, self._unread = self._unread, set()
        if unread:
            self._receive(await self.store.changes(0, unread))
        changes = await self.store.changes(self._version, self._followers)
        self._version = changes.version
        self._receive(changes)

    def _receive(self, changes: Changes) -> None:
        for id_ in changes.ended:
            if (call := self.running.get(id_)) is not None:
                call.stop()
        for id_, answers in changes.answers.items():
            if (call := self.running.get(id_)) is not None:
                call.receive_answers(answers)
        for task in changes.seen:
            self._notify(task)

    # --- subscriptions ---

    async def resolve(self, ids: list[str], principal: Principal) -> list[str]:
        """Return those of the tasks that the principal may read. Raise RPCError."""
        changes = await self.use(self.store.changes(0, ids))
        self._receive(changes)
        tools = {task.new.id: task.new.tool for task in changes.seen if task.new.binding == principal.binding}
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
            self._seen.pop(id_, None)
        self._unread.update(ids)
        self._watch()

    def unfollow(self, subscription: Subscription, ids: list[str]) -> None:
        for id_ in ids:
            followers = self._followers.get(id_, set())
            followers.discard(subscription)
            if not followers:
                self._followers.pop(id_, None)
                self._seen.pop(id_, None)

    def _notify(self, task: Task) -> None:
        id_ = task.new.id
        if id_ not in self._followers or self._seen.get(id_) == task.version:
            return
        self._seen[id_] = task.version
        for subscription in list(self._followers[id_]):
            try:
                if self._is_readable(subscription.peer.principal, task.new.tool):
                    subscription.notify("notifications/tasks", self.describe(task))
            except Exception as error:  # as in `Engine._announce`
                logger.debug("a client was not notified of a task: %s", type(error).__name__)

    # --- the end ---

    async def close(self) -> None:
        """Fail the tasks of this process, and stop their tools."""
        if not self._engine.settings.state.is_open:
            return
        await self._write_or_warn(self.store.leave())
        for call in list(self.running.values()):
            call.stop()
        loop = asyncio.get_running_loop()
        if background := [task for task in self._background if task.get_loop() is loop]:
            await asyncio.wait(background, timeout=CLOSE_S)
        self.running.clear()
        watcher, self._watcher = self._watcher, None
        if watcher is not None and watcher.get_loop() is loop:
            watcher.cancel()
            await asyncio.wait([watcher])


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
        task = await tasks.find(task_id, peer.principal)
        answers: dict[str, bytes] = {}
        for key in given.keys() & task.questions.keys():
            question = questions.read_request(codec.decode(task.questions[key]))
            if questions.from_wire(question, given[key]) is None:
                raise invalid_params(f"the answer to '{key}' does not fit the question")
            answers[key] = codec.write(given[key])
        if answers:
            await tasks.use(tasks.store.answer(task_id, binding, answers))
            tasks.announce()
        return {}

    return _request(engine, peer, id_, revision, "tasks/update", params, act)


def cancel_task(engine: Engine, peer: Peer, id_: Id, revision: Revision, params: Params) -> AwaitedResult:
    """Cancel a task; one that has ended stays as it is."""
    tasks, binding = engine.tasks, peer.binding

    async def act(task_id: str) -> dict[str, Any]:
        await tasks.find(task_id, peer.principal)
        await tasks.use(tasks.store.cancel(task_id, binding))
        tasks.announce()
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
