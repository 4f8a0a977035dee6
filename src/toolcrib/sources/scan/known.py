"""Real objects that source files may refer to: types, special forms and a few constructors, by full name.

The list is closed: a scanned file cannot cause an import. Constructors are called on literals only, with
limits on their cost. pydantic is loaded when a file first refers to it.
"""

from __future__ import annotations

import builtins
import datetime as dt
import importlib
import importlib.util
import types
from decimal import Decimal
from functools import cache
from typing import Any, Final

from toolcrib.sources.scan.source_file import words_in

MISSING: Final = object()
MAX_TEXT = 100_000
MAX_NUMBER_BITS = 4096

_OPEN = words_in(
    """
    abc annotated_types collections collections.abc dataclasses datetime decimal enum fractions ipaddress
    numbers pathlib pydantic pydantic.alias_generators pydantic.config pydantic.dataclasses pydantic.fields
    pydantic.functional_serializers pydantic.functional_validators pydantic.json_schema pydantic.networks
    pydantic.types re toolcrib toolcrib.content toolcrib.context typing typing_extensions uuid
    """
)
"""Modules whose public names are all known."""
_BUILT_IN = frozenset(
    f"builtins.{name}" for name, thing in vars(builtins).items() if isinstance(thing, type) and name[0] != "_"
)
_SINGLE = _BUILT_IN | words_in(
    """
    builtins.any functools.partial functools.total_ordering http.HTTPMethod http.HTTPStatus inspect.cleandoc
    math.e math.inf math.nan math.pi math.tau msgspec.Meta os.PathLike sys.maxsize textwrap.dedent
    types.NoneType types.UnionType zoneinfo.ZoneInfo
    """
)
"""The names that are known of other modules."""
_NEEDS = {"EmailStr": "email_validator", "NameEmail": "email_validator"}
"""Names of pydantic that work only beside another package, which only the scanned server may have."""
GATHERING = frozenset(f"builtins.{name}" for name in ("bytes", "dict", "frozenset", "list", "set", "tuple"))
CALLS = GATHERING | words_in(
    """
    annotated_types.Ge annotated_types.Gt annotated_types.Interval annotated_types.Le annotated_types.Len
    annotated_types.Lt annotated_types.MaxLen annotated_types.MinLen annotated_types.MultipleOf
    annotated_types.doc builtins.float builtins.int builtins.str dataclasses.field datetime.date
    datetime.datetime datetime.time datetime.timedelta datetime.timezone decimal.Decimal enum.auto
    inspect.cleandoc msgspec.Meta pathlib.Path pydantic.AliasChoices pydantic.AliasPath pydantic.ConfigDict
    pydantic.Discriminator pydantic.Field pydantic.StringConstraints pydantic.Strict pydantic.Tag
    pydantic.WithJsonSchema pydantic.confloat pydantic.conint pydantic.constr re.compile
    textwrap.dedent typing_extensions.Doc uuid.UUID
    """
)
"""The constructors that may be called."""
TAKES_CODE = frozenset(f"pydantic.{name}Validator" for name in ("After", "Before", "Plain", "Wrap")) | {
    "annotated_types.Predicate",
    "toolcrib.Depends",
    "toolcrib.context.Depends",
}
"""Those whose first argument is a function, which a definition does not run."""
_GATHERED = (list, tuple, dict, set, frozenset, str, bytes)
_SLOW = ("re.compile", "decimal.Decimal")
_INNER = tuple(f"pydantic.{name}." for name in ("config", "fields", "functional_validators", "types"))


@cache
def find(dotted: str) -> Any:
    """Return the object of a full name; MISSING where it is none of those that are known."""
    module, _, name = dotted.rpartition(".")
    if module in _OPEN or dotted in _SINGLE:
        return _look(module, name)
    return dt.UTC if dotted == "datetime.timezone.utc" else MISSING


def _look(module_name: str, name: str) -> Any:
    if name.startswith("_") or (name in _NEEDS and importlib.util.find_spec(_NEEDS[name]) is None):
        return MISSING
    # Delayed: pydantic costs a tenth of a second, and most files refer to nothing of it.
    try:
        module = importlib.import_module(module_name)
    except ImportError:
        return MISSING
    public = getattr(module, "__all__", None)
    is_listed = module_name not in _OPEN or module_name.startswith(("toolcrib.", "pydantic."))
    if public is not None and name not in public and not is_listed:
        return MISSING
    try:
        found = getattr(module, name, MISSING)
    except Exception:  # pydantic reports removed names in this way
        return MISSING
    return MISSING if isinstance(found, types.ModuleType) else found


@cache
def canonical(dotted: str) -> str:
    """Return the name of pydantic's public module for a name of an inner one; any other as it is."""
    parts = dotted.split(".")
    return ".".join([parts[0], *parts[2:]]) if dotted.startswith(_INNER) else dotted


def call(dotted: str, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    """Call one of CALLS. Raise ValueError or TypeError where that is wrong or would cost much."""
    made = find(dotted)
    first = next(iter((*arguments, *keywords.values())), None)
    is_endless = dotted in GATHERING and first is not None and not isinstance(first, _GATHERED)
    if is_endless or (dotted.startswith("builtins.") and isinstance(first, Decimal)):
        raise ValueError("it may be endless")
    if dotted in _SLOW and isinstance(first, str) and len(first) > 5_000:
        raise ValueError("it may take long")
    return made(*arguments, **keywords)


def is_modest(value: Any) -> bool:
    """Return whether a value is of a size that a human could have meant."""
    if isinstance(value, int):
        return value.bit_length() <= MAX_NUMBER_BITS
    if isinstance(value, str | bytes):
        return len(value) <= MAX_TEXT * 10
    return not isinstance(value, list | tuple) or len(value) <= MAX_TEXT
