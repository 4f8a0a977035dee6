"""Types created by calls or statements: `TypeVar("T")`, `NewType(...)`, `Enum("Color", ...)`, `type X`."""

from __future__ import annotations

import ast
import typing
import warnings
from typing import Any, TypeVar

from toolcrib.sources.scan import known
from toolcrib.sources.scan.hints import Hints
from toolcrib.sources.scan.names import Place, Site
from toolcrib.sources.scan.remarks import Trail, Unresolved, show
from toolcrib.sources.scan.values import Values

_MAX_MEMBERS = 5_000


class Maker:
    """Makes what the calls of the files of one library make."""

    def __init__(self, hints: Hints, values: Values) -> None:
        self.hints = hints
        self.values = values

    def make(self, place: Place, trail: Trail) -> Any:
        """What a binding is bound to. Raises Unresolved."""
        binding, site = place.binding, Site(place.scope)
        if binding.kind == "variable":
            return self._variable(binding.node, site, trail)
        if binding.kind == "alias":
            return self._alias(binding.name, binding.node, site, trail)
        call = binding.value
        assert isinstance(call, ast.Call)  # nosec B101  # nothing else comes here
        dotted = self.hints.names.qualify(call.func, site) or ""
        make = getattr(self, f"_make_{dotted.rpartition('.')[2].lower()}", None)
        try:
            if make is None or any(isinstance(item, ast.Starred) for item in call.args):
                raise Unresolved(f"'{show(call)}' is made when the code runs", call.lineno)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = make(_Call(call, dotted, place, site, trail))
        except Unresolved:
            raise
        except Exception as error:  # each of them refuses in its own way
            words = f"'{show(call)}' is refused at run time: {str(error).partition(chr(10))[0]}"
            raise Unresolved(words, call.lineno) from None
        if isinstance(made, type):
            made.__module__ = place.file.name
        return made

    # --- variables and aliases -------------------------------------------------------------------

    def _make_typevar(self, call: _Call) -> Any:
        name = self.values.evaluate(call.argument(0, "name"), call.site, call.trail)
        constraints = [self.hints.permit(item, call.site.lazily(), call.trail) for item in call.node.args[1:]]
        options: dict[str, Any] = {}
        for key, value in call.keywords.items():
            if key in ("bound", "default"):
                options[key] = self.hints.permit(value, call.site.lazily(), call.trail)
            elif key != "name":
                options[key] = self.values.evaluate(value, call.site, call.trail)
        if "default" in options or call.dotted.startswith("typing_extensions"):
            return known.find("typing_extensions.TypeVar")(name, *constraints, **options)
        return TypeVar(name, *constraints, **options)

    def _make_paramspec(self, call: _Call) -> Any:
        return typing.ParamSpec(self.values.evaluate(call.argument(0, "name"), call.site, call.trail))

    def _make_newtype(self, call: _Call) -> Any:
        name = self.values.evaluate(call.argument(0, "name"), call.site, call.trail)
        meant = self.hints.permit(call.argument(1, "tp"), call.site.lazily(), call.trail)
        made: Any = known.find("typing.NewType")(name, meant)
        made.__module__ = call.place.file.name
        return made

    def _make_typealiastype(self, call: _Call) -> Any:
        name = self.values.evaluate(call.argument(0, "name"), call.site, call.trail)
        if "type_params" in call.keywords:
            raise Unresolved("an alias with parameters is not read", call.node.lineno)
        value = self.hints.permit(call.argument(1, "value"), call.site.lazily(), call.trail)
        return known.find("typing_extensions.TypeAliasType")(name, value)

    def _variable(self, node: Any, site: Site, trail: Trail) -> Any:
        """A type parameter in brackets, of Python 3.12."""
        if type(node).__name__ != "TypeVar":
            raise Unresolved(f"'{node.name}' stands for several types", node.lineno)
        bound = getattr(node, "bound", None)
        if isinstance(bound, ast.Tuple):
            return TypeVar(node.name, *[self.hints.permit(item, site.lazily(), trail) for item in bound.elts])
        return TypeVar(
            node.name, bound=None if bound is None else self.hints.permit(bound, site.lazily(), trail)
        )

    def _alias(self, name: str, node: Any, site: Site, trail: Trail) -> Any:
        """A `type` statement, of Python 3.12."""
        if node.type_params:
            raise Unresolved(f"'{name}' is an alias with parameters, which is not read", node.lineno)
        value = self.hints.permit(node.value, site.lazily(), trail)
        return typing.TypeAliasType(name, value)  # type: ignore[attr-defined,unused-ignore]

    # --- classes ---------------------------------------------------------------------------------

    def _make_typeddict(self, call: _Call) -> Any:
        name = self.values.evaluate(call.argument(0, "typename"), call.site, call.trail)
        fields = call.argument(1, "fields")
        if not isinstance(fields, ast.Dict):
            raise Unresolved(f"the fields of '{name}' are not written where it is made", call.node.lineno)
        hints = {
            self.values.evaluate(key, call.site, call.trail): self.hints.permit(value, call.site, call.trail)
            for key, value in zip(fields.keys, fields.values, strict=True)
            if key is not None
        }
        total = call.keywords.get("total")
        options = {} if total is None else {"total": self.values.evaluate(total, call.site, call.trail)}
        return known.find(call.dotted)(name, hints, **options)

    def _make_namedtuple(self, call: _Call) -> Any:
        name = self.values.evaluate(call.argument(0, "typename"), call.site, call.trail)
        if call.dotted == "collections.namedtuple":
            fields = self.values.evaluate(call.argument(1, "field_names"), call.site, call.trail)
            options = {
                key: self.values.evaluate(value, call.site, call.trail)
                for key, value in call.keywords.items()
                if key in ("defaults", "rename")
            }
            return known.find(call.dotted)(name, fields, **options)
        items = call.argument(1, "fields")
        if not isinstance(items, ast.List | ast.Tuple):
            raise Unresolved(f"the fields of '{name}' are not written where it is made", call.node.lineno)
        pairs: list[tuple[str, Any]] = []
        for item in items.elts:
            if not isinstance(item, ast.Tuple) or len(item.elts) != 2:
                raise Unresolved(f"a field of '{name}' is not a pair", call.node.lineno)
            key = self.values.evaluate(item.elts[0], call.site, call.trail)
            pairs.append((key, self.hints.permit(item.elts[1], call.site, call.trail)))
        return known.find(call.dotted)(name, pairs)

    def _make_enum(self, call: _Call) -> Any:
        name = self.values.evaluate(call.argument(0, "value"), call.site, call.trail)
        members = self.values.evaluate(call.argument(1, "names"), call.site, call.trail)
        if len(members) > _MAX_MEMBERS:
            raise Unresolved(f"enum '{name}' has too many members", call.node.lineno)
        options: dict[str, Any] = {}
        for key, value in call.keywords.items():
            if key == "type":
                options[key] = self.hints.evaluate(value, call.site, call.trail)
            elif key == "start":
                options[key] = self.values.evaluate(value, call.site, call.trail)
        return known.find(call.dotted)(name, members, module=call.place.file.name, **options)

    _make_intenum = _make_strenum = _make_flag = _make_intflag = _make_enum


class _Call:
    """One call, taken apart."""

    def __init__(self, node: ast.Call, dotted: str, place: Place, site: Site, trail: Trail) -> None:
        self.node = node
        self.dotted = dotted
        self.place = place
        self.site = site
        self.trail = trail
        self.keywords = {item.arg: item.value for item in node.keywords if item.arg is not None}
        if len(self.keywords) != len(node.keywords):
            raise Unresolved(f"'{show(node)}' is given what is not written there", node.lineno)

    def argument(self, index: int, name: str) -> ast.expr:
        if index < len(self.node.args):
            return self.node.args[index]
        if name in self.keywords:
            return self.keywords[name]
        raise Unresolved(f"'{show(self.node)}' lacks its {name}", self.node.lineno)
