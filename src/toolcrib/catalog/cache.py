"""The catalog kept in a file, and used while it is still true.

`get_catalog_cached` answers from the file where the same was asked of the same bytes by the same builder, and
builds and overwrites it otherwise. The file is a JSON document with the catalog's five keys; a sixth, called
`cache`, says what it was made of and ends in a checksum of all before it, so that a file that was cut or
changed anywhere is not used. Nothing that is wrong with the file or its folder is an error: the catalog is
built then. Knows what makes a catalog out of date; how files are written safely is for vault.py.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import sys
from functools import cache as remember
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from toolcrib import __version__
from toolcrib.catalog.build import KEYS, Draft, draft_catalog, warn_of
from toolcrib.catalog.inputs import (
    Adapter,
    FileInputs,
    LiveInputs,
    PathName,
    find_inputs,
    hash_file,
    hash_files,
    read_settings,
)
from toolcrib.config.atomic_file import read_file, write_file
from toolcrib.registry.registry import ToolRegistry
from toolcrib.validation import codec

logger = logging.getLogger("toolcrib")

DEFAULT_CACHE = ".cache/tool_catalog.json"
FORMAT = 1
"""Rises with every change of what a catalog of the same files is."""
MAX_BYTES = 64 * 1024 * 1024

_SEAL = b',"checksum":"'
_END = b'"}}\n'
_HEX = 64
_LONG = 500_000

Facts = dict[str, Any]


def get_catalog_cached(
    adapter: Adapter = None, cache: PathName | None = DEFAULT_CACHE, *, descriptor: PathName | None = None
) -> dict[str, Any]:
    """The catalog of an adapter, as `build_catalog` gives it, from the cache where that is still true.

    Where no `cache` is given, or None, the `toolcrib.toml` here may name one under `[catalog]`.
    """
    inputs = find_inputs(adapter, descriptor)
    path = _choose_path(cache)
    if isinstance(inputs, LiveInputs):
        return _keep_live(inputs, path)
    record = load(path)
    if record is not None and _is_current(record[1], inputs):
        return record[0]
    draft = draft_catalog(inputs)
    warn_of(draft.findings)
    if draft.reading.is_stable:
        store(path, draft.catalog, _facts_of(inputs, draft))
    return draft.catalog


def _choose_path(cache: PathName | None) -> Path:
    cache = DEFAULT_CACHE if cache is None else cache
    if cache is DEFAULT_CACHE and (said := read_settings().cache) is not None:
        return said
    return Path(cache)


# --- what it was made of -----------------------------------------------------------------------------


def _facts_of(inputs: FileInputs, draft: Draft) -> Facts:
    reading = draft.reading
    return {
        "builder": name_builder(),
        "asked": inputs.key,
        "files": reading.files,
        "absent": reading.absent,
        "named": sorted({os.path.abspath(file) for file in inputs.named_files()}),
    }


def _is_current(facts: Facts, inputs: FileInputs) -> bool:
    """Whether building now would give the same: the same question, the same builder, the same bytes in every
    file, no file more and none less."""
    if facts.get("builder") != name_builder() or facts.get("asked") != inputs.key:
        return False
    files, absent = facts.get("files"), facts.get("absent")
    if not isinstance(files, dict) or not isinstance(absent, list):
        return False
    if not all(isinstance(path, str) for path in absent):
        return False
    named = {os.path.abspath(file) for file in inputs.named_files()}
    if not named <= files.keys() or sorted(named) != facts.get("named"):
        return False
    return not any(map(os.path.lexists, absent)) and hash_files(files) == files


@remember
def name_builder() -> str:
    """Who builds: another version of toolcrib, of Python or of what describes models may build otherwise."""
    models = importlib.util.find_spec("pydantic")
    mark = (
        ""
        if models is None or models.origin is None
        else hash_file(Path(models.origin).with_name("version.py"))
    )
    python = f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"
    return f"{FORMAT}: toolcrib {__version__}, {python}, pydantic {mark[:12]}"


# --- a registry --------------------------------------------------------------------------------------

_live: WeakKeyDictionary[ToolRegistry, tuple[int, dict[str, Any]]] = WeakKeyDictionary()
"""The catalog of a registry as it was at a revision: it is another's only when the revision rises."""


def _keep_live(inputs: LiveInputs, path: Path) -> dict[str, Any]:
    """The catalog of live tools. The file is for others to read: what it holds is compared, not believed."""
    registry = inputs.registry
    revision = -1 if registry is None else registry.revision  # before reading: a change on the way counts
    known = None if registry is None else _live.get(registry)
    if known is None or known[0] != revision:
        draft = draft_catalog(inputs)
        warn_of(draft.findings)
        known = (revision, draft.catalog)
        if registry is not None:
            _live[registry] = known
    catalog: dict[str, Any] = codec.decode(codec.write(known[1]))  # the caller's own
    record = load(path)
    if record is None or record[0] != catalog:
        store(path, catalog, {"builder": name_builder(), "asked": "registry"})
    return catalog


# --- the file ----------------------------------------------------------------------------------------


def load(path: Path) -> tuple[dict[str, Any], Facts] | None:
    """The catalog in a file and what it was made of; None where there is none, or none that is whole."""
    data = read_file(path, MAX_BYTES)
    return None if data is None else unseal(data)


def store(path: Path, catalog: dict[str, Any], facts: Facts) -> None:
    """Write a catalog; where that cannot be done, say so once and go on."""
    try:
        data = seal(catalog, facts)
        if len(data) > MAX_BYTES or unseal(data) is None:
            raise OSError("it would be too large to be read back")
        write_file(path, data)
    except (OSError, ValueError) as error:  # ValueError: a name that cannot be one, or text that is none
        if str(path) not in _told:
            _told.add(str(path))
            reason = getattr(error, "strerror", None) or error
            logger.warning("catalog: %s cannot be written, so it is built each time: %s", path, reason)
    else:
        _told.discard(str(path))


_told: set[str] = set()
"""The files that were complained about: once is enough until it works again."""


def seal(catalog: dict[str, Any], facts: Facts) -> bytes:
    """A document of the catalog and its facts, of which there are some, that shows whether it is whole."""
    words: Any = catalog["promptList"]
    if len(words) > _LONG:
        words = words.split("\n")  # readers of JSON refuse a text of megabytes
    body = codec.encode({**catalog, "promptList": words, "cache": facts})
    body = body.removesuffix(b"}}") + _SEAL
    return body + _checksum(body) + _END


def unseal(data: bytes) -> tuple[dict[str, Any], Facts] | None:
    """What was sealed, or None for anything else, whatever it is."""
    split = len(data) - len(_END) - _HEX
    body = data[:split] if split > 0 else b""
    if not body.endswith(_SEAL):
        return None
    checksum = _checksum(body)
    if data[split:] != checksum + _END:
        return None
    try:
        document = codec.decode(data) if checksum in _verified else codec.parse(data)
        facts = document.pop("cache")
        if isinstance(document["promptList"], list):
            document["promptList"] = "\n".join(document["promptList"])
        if checksum not in _verified:
            if tuple(document) != KEYS or not isinstance(facts, dict) or not _is_catalog(**document):
                return None
            if len(_verified) > _MANY:
                _verified.clear()
            _verified.add(checksum)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None  # whole, but not by us
    return document, facts


_verified: set[bytes] = set()
"""The checksums of what was read strictly and found good: the same bytes need not be looked at as closely."""
_MANY = 100


def _checksum(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode()


def _is_catalog(version: Any, hash: Any, count: Any, promptList: Any, functionSchema: Any) -> bool:  # noqa: A002, N803
    return (
        isinstance(hash, str)
        and version == hash[:12]
        and isinstance(promptList, str)
        and isinstance(functionSchema, list)
        and count == len(functionSchema)
        and all(isinstance(item, dict) and tuple(item) == _FUNCTION_KEYS for item in functionSchema)
    )


_FUNCTION_KEYS = ("name", "description", "parameters")
