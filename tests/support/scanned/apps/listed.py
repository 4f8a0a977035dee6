# ruff: noqa: PERF402, RUF005 - people write it so
"""Applications that list their tools, in the ways people write it."""

from toolcrib import Application, tool


def free(a: int) -> int:
    """A function beside the class."""
    return a


class Plain(Application):
    def list_tools(self):
        return [self.first, self.second]

    def first(self, a: int) -> int:
        """The first."""
        return a

    def second(self, b: str) -> str:
        """The second."""
        return b

    def third(self) -> None:
        """Not listed."""


class Built(Application):
    namespace = "built"

    def list_tools(self):
        tools = [self.alpha]
        tools.append(self.beta)
        tools += [self.gamma]
        tools.extend([self.delta, free])
        return tools

    def alpha(self) -> int:
        """Alpha."""
        return 1

    def beta(self) -> int:
        """Beta."""
        return 2

    def gamma(self) -> int:
        """Gamma."""
        return 3

    def delta(self) -> int:
        """Delta."""
        return 4


class Extended(Plain):
    namespace = "extended"

    def list_tools(self):
        return super().list_tools() + [self.own]

    def own(self) -> int:
        """Of its own."""
        return 5

    def first(self, a: int) -> int:
        return a + 1


class Starred(Application):
    namespace = "starred"

    @tool
    def marked(self) -> int:
        """Marked."""
        return 1

    def extra(self) -> int:
        """Extra."""
        return 2

    def list_tools(self):
        return [*super().list_tools(), self.extra, *[getattr(self, name) for name in ("one", "two")]]

    def one(self) -> int:
        """One."""
        return 1

    def two(self) -> int:
        """Two."""
        return 2


class NoBase:
    def list_tools(self) -> list:
        result: list = []
        for method in (self.walk, self.run):
            result.append(method)
        return result

    def walk(self, km: float) -> float:
        """Walk."""
        return km

    def run(self, km: float) -> float:
        """Run."""
        return km


class Waiting:
    async def list_tools(self) -> list:
        """A client asks for them: no application."""
        return [self.asked]

    def asked(self) -> None:
        """No tool."""


class _Private(Application):
    @tool
    def unseen(self) -> None:
        """No tool."""
