"""A cache file for catalogs, used as long as building would give the same.

`get_catalog_cached` uses the file if the same adapter was asked for, by the same versions, and every file
has the same bytes. The file is a JSON document with the five keys of a catalog. A sixth key, `cache`,
has its inputs and ends in a checksum of everything before it, so that a damaged file is not
used. Problems with the file or its folder are never errors: the catalog is built instead.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import sys
from functools import cache as remember
from pathlib import Path
from typing import Any

from toolcrib import __version__
from toolcrib.catalog.build import (
    Adapter,
    FileInputs,
    LiveInputs,
    PathName,
    build,
    find_inputs,
    hash_file,
    hash_files,
    log_findings,
)
from toolcrib.config import load_default_config
from toolcrib.config.atomic_file import read_file, write_file
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
    configured = load_default_config().cache if cache in (None, DEFAULT_CACHE) else None
    path = configured or Path(cache or DEFAULT_CACHE)
    record = load(path)
    if isinstance(inputs, FileInputs) and record is not None and _is_current(record[1], inputs):
        return record[0]
    catalog, findings, snapshot = build(inputs)
    log_findings(findings)
    builder = describe_builder()
    if isinstance(inputs, LiveInputs):  # the file is for others
        if record is None or record[0] != catalog:
            store(path, catalog, {"builder": builder, "asked": "registry"})
    elif snapshot.is_stable:
        facts = {"asked": inputs.key, "named": snapshot.named, "files": snapshot.files}
        store(path, catalog, {"builder": builder, **facts})
    return catalog


def _is_current(facts: Facts, inputs: FileInputs) -> bool:
    """Tell whether building now would give the same: same inputs, versions, files and bytes."""
    if facts.get("builder") != describe_builder() or facts.get("asked") != inputs.key:
        return False
    files: dict[str, str] = facts["files"]
    named = inputs.named_files()
    if facts["named"] != named:
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


# --- the file -----------------------------------------------------------------------------------------

_CHECKSUM_KEY = b',"checksum":"'
_END = b'"}}\n'
_CHECKSUM_LENGTH = 64
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
    if not body.endswith(_CHECKSUM_KEY) or data[split:] != _checksum(body) + _END:
        return None
    document = codec.decode(data)
    return document, document.pop("cache")


def _checksum(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode()
