"""Problems with the file of an audit log: which of them may pass, and which an operator has to solve."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from toolcrib.config.settings import Audit
from toolcrib.errors import ConfigurationError
from toolcrib.state.base import StateDamaged, StateUnavailable
from toolcrib.state.sqlite.audit import OLD, find_problem

_TEMPORARY = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.EINTR, errno.EAGAIN, errno.ESTALE}


def is_temporary(error: BaseException) -> bool:
    """Whether a failure may pass without anybody changing a setting or the log."""
    if isinstance(error, StateUnavailable):
        return not isinstance(error, StateDamaged)
    return isinstance(error, OSError) and error.errno in _TEMPORARY


def explain_damage(error: StateDamaged, path: Path, *, in_fleet: bool = False) -> ConfigurationError:
    """Return the error for a log that a server cannot continue. In a fleet `path` names only the
    checkpoints."""
    if (foreign := find_foreign_file(path)) is not None:
        return foreign
    message, hint = f"the audit log is damaged: {error}", f"run `toolcrib audit verify --file {path}`"
    hint += " to see what was changed; to begin a new log, move this one and its checkpoints away"
    if in_fleet:
        hint = "run `toolcrib audit verify` to see what was changed; to go on, move the checkpoints away"
    return ConfigurationError(message, file=str(path), key="audit.file", hint=hint)


def refuse_export(path: Path) -> None:
    """Raise ConfigurationError for a configured log that is named like a JSON Lines export."""
    if path.suffix == ".jsonl":
        raise ConfigurationError(
            "the audit log is a SQLite file, not JSON Lines",
            file=str(path),
            key="audit.file",
            hint=f'use "{path.with_suffix(".db")}"; for JSON Lines, run `toolcrib audit query '
            "--limit 0 --json`, with --follow for new records",
        )


def find_foreign_file(path: Path) -> ConfigurationError | None:
    """Return the error for a file that exists and is not an audit log of this version."""
    if path.is_dir() or not path.exists():
        return None
    problem = find_problem(path) if path.is_file() else "it is a device"
    if not problem:
        return None
    message, hint = "not an audit log", "name a file that does not exist yet: it is created"
    if problem == OLD:
        message = "the audit log cannot be continued"
        hint = "move it and its checkpoints away: a new log is created"
    return ConfigurationError(f"{message}: {problem}", file=str(path), key="audit.file", hint=hint)


def unusable_file(error: OSError, options: Audit) -> ConfigurationError:
    """Return the error for a log, key or checkpoint file that cannot be written, naming its setting."""
    settings = {
        str(options.key_file): ("audit.key_file", "key"),
        str(options.checkpoints): ("audit.checkpoints", "checkpoints"),
    }
    named = None if error.filename is None else str(error.filename)
    key, what = settings.get(named or "", ("audit.file", "log"))
    file = str(options.file) if what == "log" else str(named)
    reason = error.strerror or str(error)
    if isinstance(error, FileExistsError):  # a folder was to be created, and a file has its name
        reason = os.strerror(errno.ENOTDIR)
    if named not in (None, file):
        reason = f"{reason}: {named}"
    hint = "the user that runs the server must be able to write there"
    if isinstance(error, IsADirectoryError):
        hint = f'name a file in it: "{file}/audit.{"db" if what == "log" else what}"'
    return ConfigurationError(f"cannot write the audit {what}: {reason}", file=file, key=key, hint=hint)
