"""An MCP method: `example/count` returns how many tools the server has."""


def add_count_method(server):
    async def count(params, request):
        return {"count": len(server.registry)}

    server.add_method("example/count", count, capability={"experimental": {"example/count": {}}})
