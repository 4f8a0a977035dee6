"""Real objects that source files may refer to: types, special forms and a few constructors, by full name.

The list is closed: a scanned file cannot cause an import. Constructors are called on literals only, with
limits on their cost. pydantic is loaded when a file first refers to it.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import types
import warnings
from decimal import Decimal
from fractions import Fraction
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
_CLOSED: dict[str, frozenset[str]] = {
    "builtins": frozenset(
        name for name, thing in vars(builtins).items() if isinstance(thing, type) and name[0] != "_"
    )
    | {"any", "callable"},
    "functools": frozenset({"total_ordering", "partial"}),
    "http": frozenset({"HTTPStatus", "HTTPMethod"}),
    "inspect": frozenset({"cleandoc"}),
    "math": frozenset({"e", "inf", "nan", "pi", "tau"}),
    "msgspec": frozenset({"Meta"}),
    "os": frozenset({"PathLike"}),
    "sys": frozenset({"maxsize"}),
    "textwrap": frozenset({"dedent"}),
    "types": frozenset({"MappingProxyType", "NoneType", "SimpleNamespace", "UnionType"}),
    "zoneinfo": frozenset({"ZoneInfo"}),
}
"""The names that are known of other modules."""
_NEEDS = {"EmailStr": "email_validator", "NameEmail": "email_validator"}
"""Names of pydantic that work only beside another package, which only the scanned server may have."""
_MEMBERS = frozenset(
    {"datetime.timezone.utc"}
    | {f"datetime.{kind}.{edge}" for kind in ("date", "datetime", "time") for edge in ("min", "max")}
)

_CALLABLE = {
    "builtins": "abs bool bytes complex dict float frozenset int list set str tuple",
    "datetime": "date datetime time timedelta timezone",
    "ipaddress": "IPv4Address IPv4Network IPv4Interface IPv6Address IPv6Network IPv6Interface",
    "pathlib": "Path PosixPath PurePath PurePosixPath PureWindowsPath",
    "annotated_types": "Ge Gt Interval Le Len Lt MaxLen MinLen MultipleOf Timezone Unit doc",
    "pydantic": (
        "AliasChoices AliasPath ConfigDict Discriminator Field StringConstraints Strict Tag WithJsonSchema "
        "conbytes condate condecimal confloat confrozenset conint conlist conset constr"
    ),
    "collections": "OrderedDict",
    "dataclasses": "field",
    "decimal": "Decimal",
    "enum": "auto",
    "fractions": "Fraction",
    "inspect": "cleandoc",
    "msgspec": "Meta",
    "re": "compile",
    "textwrap": "dedent",
    "types": "MappingProxyType",
    "typing_extensions": "Doc",
    "uuid": "UUID",
}
CALLS = frozenset(f"{module}.{name}" for module, names in _CALLABLE.items() for name in names.split())
"""The constructors that may be called."""
TAKES_HINT = frozenset({"pydantic.conlist", "pydantic.conset", "pydantic.confrozenset"})
"""Those whose first argument is a type."""
TAKES_CODE = frozenset(f"pydantic.{name}Validator" for name in ("After", "Before", "Plain", "Wrap")) | {
    "annotated_types.Predicate"
}
"""Those whose first argument is a function, which a definition does not run."""
_GATHERING = frozenset(f"builtins.{name}" for name in ("bytes", "dict", "frozenset", "list", "set", "tuple"))
_GATHERED = (list, tuple, dict, set, frozenset, str, bytes)
_SLOW = ("fractions.Fraction", "re.compile", "decimal.Decimal")


@cache
def find(dotted: str) -> Any:
    """Return the object of a full name; MISSING where it is none of those that are known."""
    module, _, name = dotted.rpartition(".")
    if module in _OPEN or name in _CLOSED.get(module, ()):
        return _look(module, name)
    owner = find(module) if "." in module else MISSING
    if isinstance(owner, type) and dotted in _MEMBERS:
        return getattr(owner, name)
    members = getattr(owner, "__members__", None)
    if isinstance(owner, type) and isinstance(members, types.MappingProxyType):  # of an enum
        return members.get(name, MISSING)
    if owner in (str, bytes) and not name.startswith("_"):
        return getattr(owner, name, MISSING)  # a validator such as `str.strip`, which is not run
    return MISSING


def _look(module_name: str, name: str) -> Any:
    if name.startswith("_") or (name in _NEEDS and importlib.util.find_spec(_NEEDS[name]) is None):
        return MISSING
    # Delayed: pydantic costs a tenth of a second, and most files refer to nothing of it.
    try:
        module = importlib.import_module(module_name)
    except ImportError:
        return MISSING
    public = getattr(module, "__all__", None)
    is_listed = module_name in _CLOSED or module_name.startswith(("toolcrib.", "pydantic."))
    if public is not None and name not in public and not is_listed:
        return MISSING
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of deprecated names: the author is told elsewhere
        try:
            found = getattr(module, name, MISSING)
        except Exception:  # pydantic reports removed names in this way
            return MISSING
    return MISSING if isinstance(found, types.ModuleType) else found


@cache
def canonical(dotted: str) -> str:
    """Return the name of pydantic's public module for a name of an inner one; any other as it is."""
    parts = dotted.split(".")
    if parts[0] == "pydantic" and parts[1:2] in (
        ["config"],
        ["fields"],
        ["functional_validators"],
        ["types"],
    ):
        return ".".join([parts[0], *parts[2:]])
    return dotted


def call(dotted: str, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    """Call one of CALLS. Raise ValueError or TypeError where that is wrong or would cost much."""
    made = find(dotted)
    first = next(iter((*arguments, *keywords.values())), None)
    is_endless = dotted in _GATHERING and first is not None and not isinstance(first, _GATHERED)
    if is_endless or (
        dotted.startswith(("builtins.", "fractions.")) and isinstance(first, Decimal | Fraction)
    ):
        raise ValueError("it may be endless")
    is_power = dotted == "fractions.Fraction" and isinstance(first, str) and "e" in first.lower()
    if is_power or (dotted in _SLOW and isinstance(first, str) and len(first) > 5_000):
        raise ValueError("it may take long")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return made(*arguments, **keywords)


def is_modest(value: Any) -> bool:
    """Return whether a value is of a size that a human could have meant."""
    if isinstance(value, int):
        return value.bit_length() <= MAX_NUMBER_BITS
    if isinstance(value, str | bytes):
        return len(value) <= MAX_TEXT * 10
    return not isinstance(value, list | tuple) or len(value) <= MAX_TEXT
