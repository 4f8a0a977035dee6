# doubts: guessed-call, guessed-main
"""Registered when somebody calls: found, and said so."""

from toolcrib import MCPServer

server = MCPServer("uncalled")


@server.tool
def certain(a: int) -> int:
    """Always there."""
    return a


def register(target: MCPServer) -> None:
    @target.tool
    def perhaps(a: int) -> int:
        """Perhaps there."""
        return a


if __name__ == "__main__":

    @server.tool
    def as_program(a: int) -> int:
        """There when run as a program."""
        return a
