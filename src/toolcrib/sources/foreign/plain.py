"""Decide which functions of another library's server toolcrib may run itself.

A function is plain if nothing of the library is in its signature or in the code that it reaches: no Context,
no injected parameters, no result types, no access to the current request. Everything else is left to the
library. The code is searched through the names that it uses: functions, classes, objects and modules of the
same project are followed, installed packages are judged as a whole. In doubt, a function is not plain.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import inspect
import sys
import typing
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

from toolcrib.schema.parameters import find_function
from toolcrib.sources.foreign.recognition import PACKAGES, package_of
from toolcrib.sources.loading import is_installed

MAX_SEARCHED = 2_000
"""Functions and classes that are searched for one tool."""
_RESTRICTING = frozenset(
    {
        *("add_middleware", "add_transform", "disable", "disable_components", "remove_tool"),
        *("reset_visibility", "set_visibility", "setattr"),
        *("_components", "_tool_manager", "_tools", "_transforms", "auth", "fn", "middleware", "providers"),
    }
)
"""Methods and attributes by which tools of a server are removed or replaced, or their callers restricted."""
_ADDING = frozenset(
    {
        *("add_provider", "add_tool", "enable", "enable_components", "import_server"),
        *("mount", "tool"),
    }
)
"""Methods by which a server gets more tools."""
_ADDING_FEATURES = frozenset(
    {"add_prompt", "add_resource", "add_resource_fn", "add_template", "prompt", "resource"}
)
"""Methods by which a server gets more resources and prompts."""
_CREATING = frozenset({"__init__", "__new__", "__post_init__", "__init_subclass__", "__set_name__"})
"""Methods that have run when an object is there, or run for classes."""
_PASSIVE = frozenset({"abc", "builtins", "typing", "typing_extensions"})
"""Modules with base classes that call no methods of subclasses but special ones."""
_DYNAMIC = frozenset({"__class__", "__dict__", "attrgetter", "getattr", "methodcaller", "type", "vars"}) | {
    *("eval", "exec", "globals", "locals")
}
"""Names by which code may reach an attribute or a global that it does not name."""
_UNNAMED = (
    inspect.Parameter.VAR_POSITIONAL,
    inspect.Parameter.VAR_KEYWORD,
    inspect.Parameter.POSITIONAL_ONLY,
)
"""Kinds of parameters that clients cannot fill by name."""


def find_obstacle(function: Any, schema: Mapping[str, Any]) -> str | None:
    """Return why the library has to run a function itself, or None. `schema` is the published one."""
    if not isinstance(function, FunctionType | MethodType):
        return f"it is a {type(function).__name__}, not a function"
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return "its signature is unknown"
    hints = hints_of(function)
    for name, hint in hints.items():
        if (found := find_library_type(hint)) is not None:
            return f"it returns {found}" if name == "return" else f"it takes {found} ({name})"
    published = schema.get("properties", {})
    for parameter in signature.parameters.values():
        if parameter.kind in _UNNAMED:
            return f"it has the parameter {parameter}"
        if parameter.name not in published:
            return f"its library fills the parameter '{parameter.name}'"
    if len(published) > len(signature.parameters):
        return "its schema has other parameters than the function"
    found = _Search(function).run()
    return None if found is None else f"it uses {found}"


def hints_of(function: Any) -> Mapping[str, Any]:
    """Return the hints of a function, as far as they can be resolved."""
    try:
        return typing.get_type_hints(find_function(function), include_extras=True)
    except Exception:
        return getattr(function, "__annotations__", {})


def find_library_type(hint: Any) -> str | None:
    """Return the name of the first class of the libraries in a hint, also in its metadata."""
    kind = hint if isinstance(hint, type) else type(hint)
    if any(package_of(cls) in PACKAGES for cls in kind.__mro__):
        return kind.__name__.partition("[")[0]
    parts = [*typing.get_args(hint), *getattr(hint, "__metadata__", ())]
    if typing.get_origin(hint) is not None:
        parts.append(typing.get_origin(hint))
    return next((found for part in parts if (found := find_library_type(part)) is not None), None)


def find_change(function: Any) -> str | None:
    """Return the name of a method that removes or restricts tools of a server, in the code that a function
    reaches, or None."""
    return next(iter(sorted(_reach(function) & _RESTRICTING)), None)


def find_lifespan_change(lifespan: Any) -> str | None:
    """Return the name of any method that changes the tools of a server, in the code that a lifespan reaches,
    or None."""
    return _find_in_lifespan(lifespan, _RESTRICTING | _ADDING)


def adds_features(lifespan: Any) -> bool:
    """Return whether a lifespan may give a server resources or prompts."""
    return _find_in_lifespan(lifespan, _ADDING_FEATURES) is not None


def _find_in_lifespan(lifespan: Any, names: frozenset[str]) -> str | None:
    parts = [lifespan]
    for part in parts:  # grows while it is read: fastmcp has objects that hold functions, and such objects
        if isinstance(part, FunctionType | MethodType):
            if found := sorted(_reach(inspect.unwrap(part)) & names):
                return found[0]
        elif package_of(type(part)) in PACKAGES and len(parts) < MAX_SEARCHED:
            parts += [value for value in vars(part).values() if callable(value)]
        else:
            return type(part).__name__  # it may do anything
    return None


def _reach(function: Any) -> set[str]:
    """Return the names in the code that a function reaches."""
    if not isinstance(function, FunctionType | MethodType):
        return set()
    search = _Search(function)
    while search.step():
        pass
    return search.names


class _Search:
    """Searches the code that a function reaches for anything of the libraries. `names` are those in it.

    Of an object, such as the `self` of a method, the attributes are searched that this code names, on any
    object: a method of a class that keeps its server in `self.mcp` does not reach it without naming `mcp`.
    """

    def __init__(self, function: Any) -> None:
        self._home = _package_of_module(getattr(function, "__module__", None))
        self._waiting: list[Any] = [function]
        self._seen: set[int] = set()
        self._objects: list[Any] = []
        self._found: str | None = None
        self._dynamic: str | None = None
        """A name by which any attribute may be reached, such as `getattr`."""
        self.names: set[str] = set()

    def run(self) -> str | None:
        """Return the name of the first thing of the libraries, or None."""
        while self._found is None and self.step():
            pass
        if len(self._seen) > MAX_SEARCHED:
            return "more code than is searched"
        is_guess = self._found is not None and self._dynamic is not None and self._objects
        return f"{self._dynamic}, which may reach {self._found}" if is_guess else self._found

    def step(self) -> bool:
        """Search one function, class or object that is not searched yet; return whether there was one."""
        if not self._waiting or len(self._seen) > MAX_SEARCHED:
            return False
        thing = self._waiting.pop()
        if id(thing) not in self._seen:
            self._seen.add(id(thing))
            if isinstance(thing, type):
                found = self._search_class(thing)
            elif isinstance(thing, FunctionType | MethodType):
                found = self._search_function(thing)
            else:
                self._objects.append(thing)
                found = self._search_object(thing, self.names)
            self._found = self._found or found
        return True

    def _search_class(self, cls: type) -> str | None:
        parts = [(name, value) for base in self._own_bases(cls) for name, value in vars(base).items()]
        return self._judge_parts(cls, parts)

    def _search_object(self, thing: Any, names: Iterable[str]) -> str | None:
        """Judge the attributes of these names, and the methods that Python calls by itself, or an installed
        package that the class inherits from."""
        kind, own = type(thing), self._own_bases(type(thing))
        is_called = any(base not in own and base.__module__ not in _PASSIVE for base in kind.__mro__)
        parts = [part for base in own for part in vars(base).items()]
        reached = [part for part in parts if is_called or part[0].startswith("__")]
        parts[:0] = _attributes_of(thing).items()
        reached += [part for part in parts if part[0] in names or self._dynamic is not None]
        return self._judge_parts(kind, [part for part in reached if part[0] not in _CREATING])

    def _own_bases(self, cls: type) -> list[type]:
        return [base for base in cls.__mro__ if self._is_own(base.__module__)]

    def _judge_parts(self, cls: type, parts: Iterable[tuple[str, Any]]) -> str | None:
        """Judge attributes of a class or of an object of it."""
        found: str | None = None
        for name, value in parts:
            functions = [*_functions_in(value)]
            self._waiting += functions
            if not functions and not name.startswith("__") and self._judge(name, value, ()) is not None:
                found = found or f"{cls.__name__}.{name}"
        return found

    def _search_function(self, function: Any) -> str | None:
        if isinstance(function, MethodType):
            self._waiting.append(function.__func__)
            return self._judge("self", function.__self__, frozenset())
        names = frozenset(_names_in(function.__code__))
        if not names.isdisjoint(_DYNAMIC):
            names |= frozenset(_strings_in(function.__code__))  # getattr(server, "disable")
        new = names - self.names
        self.names |= names
        if self._dynamic is None and (dynamic := sorted(names & _DYNAMIC)):
            self._dynamic = dynamic[0]
        if any(_package_of_module(name) in PACKAGES for name in names):  # an import, or just an attribute
            for imported in _imports_in(function.__code__):
                if _package_of_module(imported) in PACKAGES:
                    return imported
        used = sorted(names & function.__globals__.keys())
        values = [(name, function.__globals__[name]) for name in used]
        values += zip(function.__code__.co_freevars, _closure_of(function), strict=False)
        values += [("a default", value) for value in function.__defaults__ or ()]
        values += (function.__kwdefaults__ or {}).items()
        judged = [self._judge(name, value, names) for name, value in values]  # all of them: it queues some
        judged += [self._search_object(thing, new) for thing in self._objects]
        return next((found for found in judged if found is not None), None)

    def _judge(self, name: str, value: Any, names: Iterable[str]) -> str | None:
        """Return the name of a value if it is of the libraries, else None; queue what is to be searched."""
        if isinstance(value, ModuleType):
            if value.__name__.partition(".")[0] in PACKAGES or self._is_installed_user(value.__name__):
                return name
            if self._is_own(value.__name__):
                parts = ((part, vars(value).get(part)) for part in names)
                judged = (self._judge(f"{name}.{part}", item, ()) for part, item in parts)
                return next((found for found in judged if found is not None), None)
            return None
        if isinstance(value, MethodType):
            return self._judge(name, value.__self__, names) or self._judge(name, value.__func__, names)
        kind = value if isinstance(value, type) else type(value)
        if type(value) in (dict, list, set, tuple):
            items = value.values() if kind is dict else value
            judged = (self._judge(name, item, ()) for item in [*items] if callable(item))
            return next((found for found in judged if found is not None), None)
        if any(package_of(cls) in PACKAGES for cls in kind.__mro__):
            return None if issubclass(kind, BaseException) else name  # its errors are shown as it shows them
        modules = [getattr(value, "__module__", None)] if isinstance(value, FunctionType) else []
        modules += [cls.__module__ for cls in kind.__mro__]
        if any(_package_of_module(each) in PACKAGES or self._is_installed_user(each) for each in modules):
            return name
        if self._is_own(modules[0]):
            self._waiting.append(value)
        return None

    def _is_own(self, module: Any) -> bool:
        """Return whether a module belongs to the project of the function."""
        if not isinstance(module, str):
            return False
        return _package_of_module(module) == self._home or not _is_installed_module(module)

    def _is_installed_user(self, module: Any) -> bool:
        """Return whether a module belongs to another installed package that uses the libraries."""
        is_other = isinstance(module, str) and not self._is_own(module)
        return is_other and _uses_libraries(_package_of_module(module))


def _attributes_of(thing: Any) -> dict[str, Any]:
    """Return the attributes that an object holds itself. Nothing is run."""
    try:
        held = dict(object.__getattribute__(thing, "__dict__"))
    except AttributeError:
        held = {}
    for base in type(thing).__mro__:
        for name, value in vars(base).items():
            if isinstance(value, MemberDescriptorType):  # of __slots__
                with contextlib.suppress(AttributeError):
                    held[name] = value.__get__(thing)
    return held


def _functions_in(value: Any) -> Iterator[Any]:
    """Yield the functions in an attribute of a class."""
    for part in (value, *(getattr(value, name, None) for name in ("fget", "__func__", "func"))):
        if isinstance(part, FunctionType):
            yield part


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _strings_in(code: CodeType) -> Iterator[str]:
    for constant in code.co_consts:
        if isinstance(constant, str):
            yield constant
        elif isinstance(constant, CodeType):
            yield from _strings_in(constant)


def _imports_in(code: CodeType) -> Iterator[str]:
    """Yield the modules that code imports, also that of functions in it."""
    yield from (item.argval for item in dis.get_instructions(code) if item.opname == "IMPORT_NAME")
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _imports_in(constant)


def _closure_of(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            yield None  # not assigned yet


def _package_of_module(module: Any) -> str:
    return module.partition(".")[0] if isinstance(module, str) else ""


@functools.lru_cache(maxsize=4096)
def _is_installed_module(module: str) -> bool:
    """Return whether a module is built in, of Python, or of an installed package."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if module == "__main__":
        return False
    if file is None:
        return module in sys.builtin_module_names or module not in sys.modules
    return is_installed(file)


@functools.lru_cache(maxsize=4096)
def _uses_libraries(package: str) -> bool:
    """Return whether a loaded module of a package has anything of the libraries among its names."""
    if package in sys.stdlib_module_names or package == "toolcrib":
        return False
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == package and isinstance(module, ModuleType):
            values = list(vars(module).values())
            owners = (
                value.__name__ if isinstance(value, ModuleType) else _owner_of(value) for value in values
            )
            if any(_package_of_module(owner) in PACKAGES for owner in owners):
                return True
    return False


def _owner_of(value: Any) -> Any:
    return getattr(value, "__module__", None) if isinstance(value, type | FunctionType) else None
