# doubts: needs-arguments
"""Objects and classes: what stands for what."""

from abc import ABC, abstractmethod

from toolcrib import Application, MCPServer, tool


class Made(Application):
    def __init__(self, space: str, name: str | None = None) -> None:
        super().__init__(name)
        self.namespace = space

    @tool
    def work(self, a: int) -> int:
        """Work."""
        return a


class Needing(Application):
    def __init__(self, key: str) -> None:
        super().__init__(name="needing")
        self.key = key

    @tool
    def never(self) -> None:
        """Not made."""


class Unfinished(Application, ABC):
    @abstractmethod
    def part(self) -> None: ...

    @tool
    def abstractly(self) -> None:
        """Not made."""


class Served(Application):
    @tool
    def on_server(self, a: int) -> int:
        """On a server."""
        return a


class NamedApp(Application):
    @tool
    def by_name(self, a: int) -> int:
        """Named after its application."""
        return a


class Spoken(Application):
    def __init__(self) -> None:
        super().__init__(name="spoken_name")

    @tool
    def by_constructor(self, a: int) -> int:
        """Named by its constructor."""
        return a


first = Made("one")
second = Made("two", name="second")
server = MCPServer("instances")
server.add(Served())
server.add(NamedApp(), namespace=True)
server.add(Spoken(), namespace=True)
server.add(Made("three"), namespace="given")
