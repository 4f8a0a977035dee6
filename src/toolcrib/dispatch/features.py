"""Resources, prompts, apps and skills of a server: the methods of `MCPServer` that add and run them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, overload

from toolcrib.context import LOCAL, Principal
from toolcrib.dispatch.dispatcher import Dispatcher, raise_failure
from toolcrib.errors import DefinitionError, Location
from toolcrib.registry.registry import OnDuplicate, Report, ToolRegistry
from toolcrib.schema.parameters import locate, locate_caller
from toolcrib.sources.base import Batch
from toolcrib.sources.foreign.interception import is_searching
from toolcrib.tool import Tool

if TYPE_CHECKING:
    from toolcrib.registry.apps import AppFields
    from toolcrib.registry.completion import Completed
    from toolcrib.registry.prompts import PromptFields
    from toolcrib.registry.resources import ResourceFields

P = ParamSpec("P")
R = TypeVar("R")


class ServerFeatures:
    """What a server has besides tools. The modules behind it are imported when they are used."""

    dispatcher: Dispatcher
    registry: ToolRegistry

    def _check_open(self) -> None:
        raise NotImplementedError

    def _register_many(self, batch: Batch, on_duplicate: OnDuplicate | None, strict: bool) -> Report:
        raise NotImplementedError

    @property
    def resources(self) -> ToolRegistry:
        """The resources and templates, by URI."""
        return self.dispatcher.resources

    @property
    def prompts(self) -> ToolRegistry:
        """The prompts, by name."""
        return self.dispatcher.prompts

    def resource(
        self, uri: str, **options: Unpack[ResourceFields]
    ) -> Callable[[Callable[P, R]], Completed[P, R]]:
        """Publish what a function returns under a URI: `@server.resource("orders://{id}")`.

        The parameters of the function are the variables of the URI. Returns the function; its attribute
        `complete` registers functions that complete variables: `@order.complete("id")`.
        """
        from toolcrib.registry.resources import make_resource  # start-up time: many servers have none

        def register(function: Callable[P, R]) -> Completed[P, R]:
            made: Completed[P, R] = self._add_feature(
                self.resources, function, lambda: make_resource(uri, function, options)
            )
            return made

        bare: Any = uri
        if callable(bare):  # `@server.resource`: refused, as is every URI that is not a string
            register(bare)
        return register

    def add_resource(self, uri: str, content: Any, **options: Unpack[ResourceFields]) -> None:
        """Publish fixed content under a URI: text, bytes, data, a `File`, or the `Path` of a file or folder.

        Of a folder, every file is a resource below the URI; files outside of it cannot be read.
        """
        from toolcrib.registry.resources import add_static  # start-up time, as above

        caller = locate_caller()
        self._add_resources(caller, lambda: add_static(uri, content, options, caller))

    def add_app(self, uri: str, page: str | Path, **options: Unpack[AppFields]) -> None:
        """Publish a page (HTML, or the `Path` of a file) that hosts show for the results of tools with
        `ui=uri`. It may use the domains of `csp` only: `{"resourceDomains": ["https://cdn.example.com"]}`.
        """
        from toolcrib.registry.apps import make_app  # start-up time, as above

        caller = locate_caller()
        self._add_resources(caller, lambda: [make_app(uri, page, options, caller)])

    def add_skills(self, folder: str | Path, prefix: str = "", *, strict: bool = False) -> Report:
        """Publish the skills in a folder, which are folders with a SKILL.md, under `skill://[prefix/]name/`.

        Those that break a rule are logged and reported; `strict` raises and registers none.
        """
        from toolcrib.sources.skills import read_skills  # start-up time, as above

        self._check_open()
        return self._register_many(read_skills(Path(folder), prefix), None, strict)

    def _add_resources(self, caller: Location, make: Callable[[], Sequence[Tool]]) -> None:
        self._check_open()
        try:
            made = make()
            if len(made) == 1:
                self.resources.add(made[0])
            else:
                self.resources.add_all(made, strict=True)
        except DefinitionError as error:
            if not is_searching():
                raise
            if error.source.file is None:
                error.source = caller
            self.registry.refused.extend(error.all_findings)

    @overload
    def prompt(self, function: Callable[P, R], /, **options: Unpack[PromptFields]) -> Completed[P, R]: ...
    @overload
    def prompt(
        self, name: str | None = None, /, **options: Unpack[PromptFields]
    ) -> Callable[[Callable[P, R]], Completed[P, R]]: ...
    def prompt(self, first: Any = None, /, **options: Unpack[PromptFields]) -> Any:
        """Offer a function as a prompt: it returns text, messages, or a list of these.

        Works bare, with a name, and with options. Returns the function; its attribute `complete` registers
        functions that complete arguments: `@plan_trip.complete("city")`.
        """
        from toolcrib.registry.prompts import make_prompt  # start-up time, as above

        def register(function: Any) -> Any:
            name = None if callable(first) else first
            return self._add_feature(self.prompts, function, lambda: make_prompt(function, name, options))

        return register(first) if callable(first) else register

    def _add_feature(self, registry: ToolRegistry, function: Any, make: Callable[[], Any]) -> Any:
        """Register a resource or a prompt, and return its function."""
        self._check_open()
        try:
            made: Any = registry.add(make())
        except DefinitionError as error:
            if not is_searching():
                raise
            if error.source.file is None:
                error.source = locate(function)
            self.registry.refused.extend(error.all_findings)
            return function
        from toolcrib.registry.completion import completer_of

        try:
            function.complete = partial(completer_of, made)
        except (AttributeError, TypeError):
            pass  # a method or another object without attributes of its own
        return function

    async def read(self, uri: str, *, principal: Principal = LOCAL) -> list[dict[str, Any]]:
        """Return the contents of a resource. Raises ToolNotFoundError, and CallError where reading fails."""
        resource, values = self.dispatcher.find_resource(uri)
        result = await self.dispatcher.run(resource, uri, values, kind="resource", principal=principal)
        return [{"uri": uri, **item} for item in raise_failure(result).content]

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, *, principal: Principal = LOCAL
    ) -> list[dict[str, Any]]:
        """Return the messages of a prompt. Raises ToolNotFoundError, or CallError where that fails."""
        prompt = self.prompts.try_get(name)
        result = await self.dispatcher.run(prompt, name, arguments, kind="prompt", principal=principal)
        return raise_failure(result).content
