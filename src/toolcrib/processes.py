"""Child processes: started without a shell, spoken to through pipes, stopped with everything they started.
Lines of a pipe, for both ends of the stdio transport.

Every child runs in a session of its own, so that Ctrl-C reaches only the parent and one signal reaches the
child with all its descendants.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self, cast

GRACE_S = 2.0
"""How long a child has to end after it was asked to."""
HAS_GROUPS = hasattr(os, "killpg")
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
_STDERR_BYTES = 4096
_STDERR_LINES = 8


class StartError(Exception):
    """A program cannot be started. `is_missing`: it, or its working directory, does not exist."""

    def __init__(self, problem: str, *, is_missing: bool) -> None:
        super().__init__(problem)
        self.is_missing = is_missing


class ChildProcess(asyncio.SubprocessProtocol):
    """One run of a program.

    Subclasses override `stdout_received`, `stderr_received` and `finished`. The end of stderr is kept for
    error messages.
    """

    def __init__(self, label: str, grace_s: float = GRACE_S) -> None:
        self.label = label
        self._grace_s = grace_s
        self._stderr = bytearray()
        self._exited = asyncio.Event()
        self._finished = asyncio.Event()
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._open_pipes = {1, 2}
        self._is_stopping = False

    async def start(
        self,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        *,
        keeps_stderr: bool = True,
        pass_fds: Sequence[int] = (),
    ) -> Self:
        """Start the program; `env` is added to the environment. Without `keeps_stderr`, it writes to the
        stderr of this process. Raises StartError."""
        if not keeps_stderr:
            self._open_pipes.discard(2)
        try:
            await asyncio.get_running_loop().subprocess_exec(
                lambda: self,
                *command,
                env=None if env is None else {**os.environ, **env},
                cwd=cwd,
                stderr=subprocess.PIPE if keeps_stderr else None,
                pass_fds=pass_fds,
                start_new_session=HAS_GROUPS,
            )
        except FileNotFoundError:
            missing = cwd if cwd is not None and not Path(cwd).is_dir() else command[0]
            raise StartError(f"'{missing}' not found", is_missing=True) from None
        except (OSError, ValueError) as error:
            raise StartError(f"'{command[0]}': {error}", is_missing=False) from None
        return self

    # --- for subclasses ---

    def stdout_received(self, data: bytes) -> None: ...

    def stderr_received(self, data: bytes) -> None: ...

    def finished(self) -> None:
        """Called once: the child has exited and all its output was received, or it has closed its stdout or
        exited, and something still holds a pipe open after a grace period."""

    # --- writing ---

    @property
    def stdin(self) -> asyncio.WriteTransport | None:
        """The pipe to the child; None where nothing can be written any more."""
        pipe = cast(asyncio.WriteTransport | None, self._transport.get_pipe_transport(0))
        return None if pipe is None or pipe.is_closing() or self._exited.is_set() else pipe

    def close_stdin(self) -> None:
        """Close the pipe to the child after what was written to it."""
        if pipe := self.stdin:
            pipe.close()

    # --- the end ---

    @property
    def pid(self) -> int:
        return self._transport.get_pid()

    @property
    def has_exited(self) -> bool:
        return self._exited.is_set()

    async def wait_exit(self) -> int:
        """Wait until it has exited, however long it takes. Return as `wait` does."""
        await self._exited.wait()
        self._transport.close()
        return cast(int, self._transport.get_returncode())

    def kill(self) -> None:
        """Kill it and everything it has started."""
        if not self._exited.is_set():
            self._signal(KILL)

    async def wait(self) -> int | None:
        """Wait until the child is finished. Return its exit code, or minus the signal that ended it;
        None where it has only closed its stdout."""
        try:
            async with asyncio.timeout(self._grace_s):
                await self._finished.wait()
        except TimeoutError:
            pass
        return self._transport.get_returncode()

    def describe_exit(self, addition: str = "") -> str:
        """Return how the child ended, with the last lines of its stderr."""
        code = self._transport.get_returncode()
        how = "closed its stdout" if code is None else f"exited with code {code}"
        lines = self._stderr.decode("utf-8", "replace").strip().splitlines()[-_STDERR_LINES:]
        stderr = "".join(f"\n    {line}" for line in lines)
        return f"{self.label} {how}{addition}" + (f". Its stderr:{stderr}" if stderr else "")

    async def stop(self, wait_s: float = 0.0) -> None:
        """Close its stdin, send SIGTERM after `wait_s`, and SIGKILL after another grace period.

        The child is stopped even if this is cancelled, and then at once.
        """
        stopping = asyncio.ensure_future(self._stop(wait_s))
        try:
            await asyncio.shield(stopping)
        except asyncio.CancelledError:
            self._signal(KILL)
            await stopping
            raise

    async def _stop(self, wait_s: float) -> None:
        self._is_stopping = True
        self.close_stdin()
        for number, limit_s in ((None, wait_s), (signal.SIGTERM, self._grace_s), (KILL, None)):
            if number is not None:
                self._signal(number)
            try:
                async with asyncio.timeout(limit_s):
                    await self._exited.wait()
                break
            except TimeoutError:
                continue
        self._transport.close()
        for _ in range(2):
            await asyncio.sleep(0)  # the pipes, then the transport, close in the next turns of the loop

    def _signal(self, number: int) -> None:
        signal_group(self._transport.get_pid(), number)

    # --- asyncio ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._stderr += data
            del self._stderr[:-_STDERR_BYTES]
            self.stderr_received(data)
        else:
            self.stdout_received(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002
        if fd == 0:
            self._can_write.set()  # a writer that waits finds the pipe closed
        self._open_pipes.discard(fd)
        self._check_finished()

    def process_exited(self) -> None:
        self._exited.set()
        self._can_write.set()
        self._signal(KILL)  # what it started and left behind; later its group id may be another's
        self._check_finished()

    def _check_finished(self) -> None:
        if self._exited.is_set() and not self._open_pipes:
            self._finish()
        elif self._exited.is_set() or 1 not in self._open_pipes:
            # A descendant that has left the group may hold a pipe open; it is not waited for.
            asyncio.get_running_loop().call_later(self._grace_s, self._finish)

    def _finish(self) -> None:
        if not self._finished.is_set():
            self._finished.set()
            self.finished()


def signal_group(pid: int, number: int) -> None:
    """Send a signal to a child and everything it started."""
    try:
        if HAS_GROUPS:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass  # it has exited, or has no group yet


class LineReader:
    """Collects chunks and yields lines. A line over the limit is yielded as None and skipped."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = bytearray()
        self._is_skipping = False

    def feed(self, chunk: bytes) -> Iterator[bytes | None]:
        held = self._held
        if not held and not self._is_skipping and chunk.find(b"\n") == len(chunk) - 1 <= self._limit:
            yield chunk[:-1]  # the common case: one complete line
            return
        seen = len(held)
        held += chunk
        start = 0
        while (end := held.find(b"\n", max(start, seen))) >= 0:
            if self._is_skipping:
                self._is_skipping = False
            else:
                yield bytes(held[start:end]) if end - start <= self._limit else None
            start = end + 1
        del held[:start]
        if len(held) > self._limit or self._is_skipping:
            held.clear()
            if not self._is_skipping:
                self._is_skipping = True
                yield None

    def end(self) -> bytes:
        """Return what came after the last line."""
        rest = bytes(self._held)
        self._held.clear()
        return rest
