"""Checks the arguments of one tool against its published schema and makes them Python values.

The order: unknown names, nulls, the compiled schema, repair and the schema again, conversion. Knows one
tool's schema and binder. Refuses to know who calls and what runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcrib.bounds import Schema
from toolcrib.errors import InvalidArgumentsError
from toolcrib.schema.repair import repair
from toolcrib.schema.signature import Binder
from toolcrib.validation import Problem, Validator, describe_value, format_path


class ArgumentCheck:
    """Compiled when first used; the same for every call."""

    __slots__ = ("_validator", "binder", "ignores_extra", "name", "repairs", "schema", "trusted")

    def __init__(
        self, name: str, schema: Schema, binder: Binder, *, trusted: bool, repairs: bool, ignores_extra: bool
    ) -> None:
        self.name = name
        self.schema = schema
        self.binder = binder
        self.trusted = trusted
        self.repairs = repairs
        self.ignores_extra = ignores_extra
        self._validator: Validator | None = None

    @property
    def validator(self) -> Validator:
        if self._validator is None:
            self._validator = Validator(self.schema, trusted=self.trusted)
        return self._validator

    def check(self, given: Any) -> dict[str, Any]:
        """Plain arguments that fit the schema, explicit nulls still in them. Raises InvalidArgumentsError."""
        arguments: dict[str, Any] = given if type(given) is dict else self._as_dict(given)
        binder = self.binder
        if binder.closed and not arguments.keys() <= binder.known:
            arguments = self._drop_unknown(arguments)
        checked = self._without_nulls(arguments) if None in arguments.values() else arguments
        validator = self._validator or self.validator
        try:
            if validator.deepest is not None and validator.is_too_deep(checked):
                raise self._refusal([Problem("", f"nested deeper than {validator.deepest} levels", "")])
            if validator.is_valid(checked):
                return arguments
        except ValueError as error:  # the engine meets something that is not JSON
            raise self._refusal([Problem("", _name_unusable(arguments, error), "")]) from None
        return self._repaired(arguments, checked)

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Checked arguments as the function's parameters. Raises InvalidArgumentsError."""
        binder = self.binder
        if binder.whole is not None:
            return {binder.whole: self._without_nulls(arguments) if None in arguments.values() else arguments}
        if None in arguments.values():
            values = {
                binder.attributes.get(name, name): value
                for name, value in arguments.items()
                if value is not None or name not in binder.optional
            }
        elif binder.loads:
            values = dict(arguments)
        else:
            return arguments
        for name, attribute, load in binder.loads:
            if name in arguments and (
                arguments[name] is not None or name not in binder.nullable | binder.optional
            ):
                try:
                    value = arguments[name] if load is None else load(arguments[name])
                except (ValueError, ArithmeticError, AssertionError) as error:
                    raise self._refusal(_conversion_problems(name, arguments[name], error)) from None
                if name != attribute:
                    values.pop(name, None)
                values[attribute] = value
        return values

    def _as_dict(self, arguments: Any) -> dict[str, Any]:
        if arguments is None:
            return {}
        if isinstance(arguments, Mapping):
            return dict(arguments)
        raise self._refusal([Problem("", "arguments must be an object", describe_value(arguments))])

    def _drop_unknown(self, arguments: dict[str, Any]) -> dict[str, Any]:
        unknown = [name for name in arguments if name not in self.binder.known]
        if self.ignores_extra:
            return {name: value for name, value in arguments.items() if name in self.binder.known}
        problems = [
            Problem(_show(name), "not a parameter of this tool", "", self._suggest(name)) for name in unknown
        ]
        missing = [name for name in self.schema.get("required", ()) if name not in arguments]
        problems += [Problem(name, "required, but missing", "") for name in missing]
        raise self._refusal(problems)

    def _suggest(self, name: Any) -> str | None:
        import difflib

        known = sorted(self.binder.known)
        close = difflib.get_close_matches(str(name).lower(), known, n=1, cutoff=0.6)
        if close:
            return f"did you mean '{close[0]}'?"
        return f"it takes: {', '.join(known[:20])}" if known else "it takes none"

    def _without_nulls(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Arguments without those nulls that mean None, or that mean nothing was given."""
        binder = self.binder
        return {
            name: value
            for name, value in arguments.items()
            if value is not None or not (name in binder.nullable or name in binder.optional)
        }

    def _repaired(self, arguments: dict[str, Any], checked: dict[str, Any]) -> dict[str, Any]:
        if self.repairs:
            mended = repair(arguments, self.schema)
            if mended is not arguments and self.validator.is_valid(self._without_nulls(mended)):
                return dict(mended)
        raise self._refusal(self.validator.problems(checked))

    def _refusal(self, problems: list[Problem]) -> InvalidArgumentsError:
        head = f"Invalid arguments for tool '{self.name}'"
        lines = [str(problem) for problem in problems]
        text = (
            f"{head}: {lines[0]}"
            if len(lines) == 1
            else f"{head}:\n" + "\n".join(f"- {line}" for line in lines)
        )
        return InvalidArgumentsError(text, details=[problem.to_json() for problem in problems])


def _show(name: Any) -> str:
    return str(name)[:64].encode("unicode_escape").decode()


def _name_unusable(arguments: dict[str, Any], error: ValueError) -> str:
    for name, value in arguments.items():
        if isinstance(value, str) and not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                return f"'{_show(name)}' holds text that is not valid Unicode"
    return f"arguments are not JSON: {str(error).splitlines()[0]}"


def _conversion_problems(name: str, value: Any, error: Exception) -> list[Problem]:
    """What a converter refused, in the words of whoever refused it, without values and web addresses."""
    errors = getattr(error, "errors", None)
    if callable(errors):
        try:
            found = errors(include_url=False, include_input=False, include_context=False)
            return [Problem(format_path([name, *item["loc"]]), item["msg"], "") for item in found]
        except TypeError:
            pass  # some other exception that happens to have `errors`
    return [Problem(name, str(error) or type(error).__name__, describe_value(value))]
