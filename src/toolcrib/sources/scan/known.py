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

MISSING: Final = object()

_OPEN = frozenset(
    {
        "abc",
        "annotated_types",
        "collections",
        "collections.abc",
        "dataclasses",
        "datetime",
        "decimal",
        "enum",
        "fractions",
        "ipaddress",
        "numbers",
        "pathlib",
        "pydantic",
        "pydantic.alias_generators",
        "pydantic.config",
        "pydantic.dataclasses",
        "pydantic.fields",
        "pydantic.functional_serializers",
        "pydantic.functional_validators",
        "pydantic.json_schema",
        "pydantic.networks",
        "pydantic.types",
        "re",
        "toolcrib",
        "toolcrib.content",
        "toolcrib.context",
        "typing",
        "typing_extensions",
        "uuid",
    }
)
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
_NEEDS = {"EmailStr": "email_validator", "NameEmail": "email_validator"}
"""What of pydantic works only beside another package, which the scanned server may have and we have not."""


@cache
def find(dotted: str) -> Any:
    """The object of a full name; MISSING where it is none of those that are known."""
    module, _, name = dotted.rpartition(".")
    if module in _OPEN or name in _CLOSED.get(module, ()):
        return _look(module, name)
    owner = find(module) if "." in module else MISSING
    if isinstance(owner, type) and dotted in _MEMBERS:
        return getattr(owner, name)
    if isinstance(owner, type) and _is_enum(owner):
        return owner.__members__.get(name, MISSING)  # type: ignore[attr-defined]
    if owner in (str, bytes) and not name.startswith("_"):
        return getattr(owner, name, MISSING)  # a validator such as `str.strip`, which nobody runs
    return MISSING


def is_module(dotted: str) -> bool:
    """Whether this is a module of which something may be known, or leads to one."""
    return dotted in _OPEN or dotted in _CLOSED or any(name.startswith(f"{dotted}.") for name in _OPEN)


_MEMBERS = frozenset(
    {
        "datetime.timezone.utc",
        *(f"datetime.{kind}.{edge}" for kind in ("date", "datetime", "time") for edge in ("min", "max")),
    }
)


def _is_enum(owner: type) -> bool:
    return hasattr(owner, "__members__") and isinstance(owner.__members__, types.MappingProxyType)


def _look(module_name: str, name: str) -> Any:
    if name.startswith("_") or (name in _NEEDS and importlib.util.find_spec(_NEEDS[name]) is None):
        return MISSING
    # Delayed: pydantic costs a tenth of a second, and most files mean nothing of it.
    try:
        module = importlib.import_module(module_name)
    except ImportError:
        return MISSING
    public = getattr(module, "__all__", None)
    is_listed = module_name in _CLOSED or module_name.startswith(("toolcrib.", "pydantic."))
    if public is not None and name not in public and not is_listed:
        return MISSING
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is deprecated: the file's author is told elsewhere
        try:
            found = getattr(module, name, MISSING)
        except Exception:  # pydantic tells of removed names in this way
            return MISSING
    return MISSING if isinstance(found, types.ModuleType) else found


# --- what may be called ------------------------------------------------------------------------------

CALLS = frozenset(
    {
        *(f"builtins.{name}" for name in ("abs", "bool", "bytes", "complex", "dict", "float", "frozenset")),
        *(f"builtins.{name}" for name in ("int", "list", "set", "str", "tuple")),
        *(f"datetime.{name}" for name in ("date", "datetime", "time", "timedelta", "timezone")),
        *(f"ipaddress.IPv{number}{kind}" for number in "46" for kind in ("Address", "Network", "Interface")),
        *(
            f"pathlib.{name}"
            for name in ("Path", "PosixPath", "PurePath", "PurePosixPath", "PureWindowsPath")
        ),
        *(f"annotated_types.{name}" for name in ("Ge", "Gt", "Interval", "Le", "Len", "Lt", "MaxLen")),
        *(f"annotated_types.{name}" for name in ("MinLen", "MultipleOf", "Timezone", "Unit", "doc")),
        *(
            f"pydantic.{name}"
            for name in ("AliasChoices", "AliasPath", "ConfigDict", "Discriminator", "Field")
        ),
        *(f"pydantic.{name}" for name in ("StringConstraints", "Strict", "Tag", "WithJsonSchema")),
        *(
            f"pydantic.con{name}"
            for name in ("bytes", "date", "decimal", "float", "frozenset", "int", "list")
        ),
        *("pydantic.conset", "pydantic.constr"),
        *("collections.OrderedDict", "dataclasses.field", "decimal.Decimal", "enum.auto"),
        *("fractions.Fraction", "inspect.cleandoc", "msgspec.Meta", "re.compile", "textwrap.dedent"),
        *("types.MappingProxyType", "typing_extensions.Doc", "uuid.UUID"),
    }
)
_ALIASES = {
    "pydantic.fields.Field": "pydantic.Field",
    "pydantic.config.ConfigDict": "pydantic.ConfigDict",
    **{
        f"pydantic.types.{name}": f"pydantic.{name}"
        for name in ("StringConstraints", "Strict", "Tag", "Discriminator", "conint", "constr", "conlist")
    },
}
TAKES_HINT = frozenset({"pydantic.conlist", "pydantic.conset", "pydantic.confrozenset"})
"""Those whose first argument is a type."""
TAKES_CODE = frozenset(f"pydantic.{name}Validator" for name in ("After", "Before", "Plain", "Wrap")) | {
    "annotated_types.Predicate",
    "toolcrib.Depends",
    "toolcrib.context.Depends",
}
"""Those whose first argument is a function, which a definition does not run."""


@cache
def canonical(dotted: str) -> str:
    """The one name among several of the same thing."""
    if dotted.startswith("pydantic.functional_validators."):
        return dotted.replace("functional_validators.", "")
    return _ALIASES.get(dotted, dotted)


_GATHERING = frozenset(f"builtins.{name}" for name in ("bytes", "dict", "frozenset", "list", "set", "tuple"))
_GATHERED = (list, tuple, dict, set, frozenset, str, bytes)
_SLOW = ("fractions.Fraction", "re.compile", "decimal.Decimal")
MAX_TEXT = 100_000
MAX_NUMBER_BITS = 4096


def call(dotted: str, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    """Call one of CALLS. Raises ValueError or TypeError where that is wrong or would cost much."""
    made = find(dotted)
    if made is MISSING:
        raise ValueError(f"{dotted} is not available")
    first = next(iter((*arguments, *keywords.values())), None)
    if dotted in _GATHERING and first is not None and not isinstance(first, _GATHERED):
        raise ValueError("it may be endless")
    if dotted in ("builtins.bytes", "builtins.bytearray") and isinstance(first, int):
        raise ValueError("it makes bytes out of nothing")
    if dotted in ("builtins.int", "fractions.Fraction", "builtins.float") and isinstance(
        first, Decimal | Fraction
    ):
        raise ValueError("it may be endless")
    if isinstance(first, str) and (len(first) > 5_000 and dotted in _SLOW):
        raise ValueError("it may take long")
    if isinstance(first, str) and dotted == "fractions.Fraction" and "e" in first.lower():
        raise ValueError("it may take long")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return made(*arguments, **keywords)


def is_modest(value: Any) -> bool:
    """Whether a value is of a size that a human could have meant."""
    if isinstance(value, int):
        return value.bit_length() <= MAX_NUMBER_BITS
    if isinstance(value, str | bytes):
        return len(value) <= MAX_TEXT * 10
    return not isinstance(value, list | tuple) or len(value) <= MAX_TEXT
