"""A cache file for catalogs, used as long as building would give the same.

`get_catalog_cached` uses the file if the same adapter was asked for, by the same versions, and every file
has the same bytes. The file is a JSON document with the five keys of a catalog. A sixth key, `cache`,
has its inputs and ends in a checksum of everything before it, so that a damaged file is not
used. Problems with the file or its folder are never errors: the catalog is built instead.
"""

from __future__ import annotations

import gc
import hashlib
import importlib.util
import logging
import sys
from functools import cache as remember
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from toolcrib import __version__
from toolcrib.catalog.build import KEYS, build, log_findings
from toolcrib.catalog.inputs import (
    Adapter,
    FileInputs,
    LiveInputs,
    PathName,
    find_inputs,
    hash_file,
    hash_files,
)
from toolcrib.config import load_default_config
from toolcrib.config.atomic_file import read_file, write_file
from toolcrib.registry.registry import ToolRegistry
from toolcrib.validation import codec

logger = logging.getLogger("toolcrib")

DEFAULT_CACHE = ".cache/tool_catalog.json"
FORMAT = 1
"""Increase it when the catalog of the same files changes."""
MAX_BYTES = 64 * 1024 * 1024

Facts = dict[str, Any]
"""The inputs of a catalog."""


def get_catalog_cached(
    adapter: Adapter = None, cache: PathName | None = DEFAULT_CACHE, *, descriptor: PathName | None = None
) -> dict[str, Any]:
    """Return the catalog of an adapter, as `build_catalog` does, from the cache if that is still valid.

    Without a `cache`, the `toolcrib.toml` of the current folder may name one under `[catalog]`.
    """
    inputs = find_inputs(adapter, descriptor)
    path = _choose_path(cache)
    if isinstance(inputs, LiveInputs):
        return _get_live(inputs, path)
    record = load(path)
    if record is not None and _is_current(record[1], inputs):
        return record[0]
    catalog, findings, snapshot = build(inputs)
    log_findings(findings)
    if snapshot.is_stable:
        facts = {"asked": inputs.key, "named": snapshot.named, "files": snapshot.files}
        store(path, catalog, {"builder": describe_builder(), **facts})
    return catalog


def _choose_path(cache: PathName | None) -> Path:
    cache = DEFAULT_CACHE if cache is None else cache
    if cache is DEFAULT_CACHE and (configured := load_default_config().cache) is not None:
        return configured
    return Path(cache)


def _is_current(facts: Facts, inputs: FileInputs) -> bool:
    """Tell whether building now would give the same: same inputs, versions, files and bytes."""
    if facts.get("builder") != describe_builder() or facts.get("asked") != inputs.key:
        return False
    files, named = facts.get("files"), inputs.named_files()
    if not isinstance(files, dict) or facts.get("named") != named:
        return False
    sources = inputs.find_sources(named)
    if sources is None or not sources <= files.keys():
        return False
    return hash_files(files) == files


@remember
def describe_builder() -> str:
    """Return the versions that a catalog depends on: the format, toolcrib, Python and pydantic."""
    spec = importlib.util.find_spec("pydantic")
    origin = None if spec is None else spec.origin
    pydantic = "" if origin is None else hash_file(Path(origin).with_name("version.py"))
    python = f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"
    return f"{FORMAT}: toolcrib {__version__}, {python}, pydantic {pydantic[:12]}"


# --- live tools ---------------------------------------------------------------------------------------

_live: WeakKeyDictionary[ToolRegistry, tuple[int, dict[str, Any]]] = WeakKeyDictionary()
"""The catalogs of registries, with the revision they were built at."""


def _get_live(inputs: LiveInputs, path: Path) -> dict[str, Any]:
    """Return the catalog of live tools. The file is written for others, and not used."""
    registry = inputs.registry
    revision = -1 if registry is None else registry.revision  # before reading: a change meanwhile counts
    known = None if registry is None else _live.get(registry)
    if known is None or known[0] != revision:
        built, findings, _ = build(inputs)
        log_findings(findings)
        known = (revision, built)
        if registry is not None:
            _live[registry] = known
    catalog: dict[str, Any] = codec.decode(codec.write(known[1]))  # a copy for the caller
    record = load(path)
    if record is None or record[0] != catalog:
        store(path, catalog, {"builder": describe_builder(), "asked": "registry"})
    return catalog


# --- the file -----------------------------------------------------------------------------------------

_CHECKSUM_KEY = b',"checksum":"'
_END = b'"}}\n'
_CHECKSUM_LENGTH = 64
_FUNCTION_KEYS = ("name", "description", "parameters")
_failed_paths: set[str] = set()
"""Files that could not be written and were reported: once is enough until it works again."""


def load(path: Path) -> tuple[dict[str, Any], Facts] | None:
    """Return the catalog in a file and its inputs; None if there is none, or it is damaged."""
    data = read_file(path, MAX_BYTES)
    return None if data is None else unseal(data)


def store(path: Path, catalog: dict[str, Any], facts: Facts) -> None:
    """Write a catalog; if that fails, log it once."""
    try:
        data = seal(catalog, facts)
        if len(data) > MAX_BYTES or unseal(data) is None:
            raise OSError("it would be too large to be read back")
        write_file(path, data)
    except (OSError, ValueError) as error:  # ValueError: an invalid name, or text that cannot be encoded
        if str(path) not in _failed_paths:
            _failed_paths.add(str(path))
            reason = getattr(error, "strerror", None) or error
            logger.warning("catalog: cannot write %s, so the catalog is built each time: %s", path, reason)
    else:
        _failed_paths.discard(str(path))


def seal(catalog: dict[str, Any], facts: Facts) -> bytes:
    """Return a document of the catalog and its facts, with a checksum."""
    body = codec.encode({**catalog, "cache": facts}).removesuffix(b"}}") + _CHECKSUM_KEY
    return body + _checksum(body) + _END


def unseal(data: bytes) -> tuple[dict[str, Any], Facts] | None:
    """Return the sealed catalog and its inputs; None for anything else."""
    split = len(data) - len(_END) - _CHECKSUM_LENGTH
    body = data[:split] if split > 0 else b""
    if not body.endswith(_CHECKSUM_KEY):
        return None
    if data[split:] != _checksum(body) + _END:
        return None
    was_collecting = gc.isenabled()
    gc.disable()  # a catalog is many new objects and no garbage
    try:
        document = codec.decode(data)
        facts = document.pop("cache")
        is_ours = tuple(document) == KEYS and isinstance(facts, dict) and _is_catalog(**document)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None  # intact, but not written by toolcrib
    finally:
        if was_collecting:
            gc.enable()
    return (document, facts) if is_ours else None


def _checksum(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode()


def _is_catalog(version: Any, hash: Any, count: Any, promptList: Any, functionSchema: Any) -> bool:  # noqa: A002, N803
    return (
        isinstance(hash, str)
        and version == hash[:12]
        and isinstance(promptList, str)
        and isinstance(functionSchema, list)
        and count == len(functionSchema)
        and set(map(type, functionSchema)) <= {dict}
        and set(map(tuple, functionSchema)) <= {_FUNCTION_KEYS}
    )
