"""The versions of `mcp` and `fastmcp` that the matrix installs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Version:
    library: str
    number: str
    others: tuple[str, ...] = ()
    """Other requirements: an old version does not work with every new version of what it is built on."""

    @property
    def name(self) -> str:
        return f"{self.library}-{self.number}"

    @property
    def major(self) -> int:
        return int(self.number.partition(".")[0])

    @property
    def requirements(self) -> tuple[str, ...]:
        return (f"{self.library}=={self.number}", *self.others)


OLD_PYDANTIC = "pydantic<2.12"
VERSIONS = [
    Version("mcp", "1.6.0", (OLD_PYDANTIC,)),
    Version("mcp", "1.9.4", (OLD_PYDANTIC,)),
    Version("mcp", "1.12.4", (OLD_PYDANTIC,)),
    Version("mcp", "1.16.0", ("pydantic<2.14",)),
    Version("mcp", "1.22.0"),
    Version("mcp", "1.30.0"),
    Version("mcp", "2.0.1"),
    Version("mcp", "2.3.0"),
    Version("fastmcp", "2.12.5", ("pydantic<2.14",)),
    Version("fastmcp", "2.13.3"),
    Version("fastmcp", "2.14.7"),
    Version("fastmcp", "3.0.2"),
    Version("fastmcp", "3.4.10"),
    Version("fastmcp", "4.0.11"),
    Version("fastmcp", "4.1.2"),
]
