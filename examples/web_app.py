"""A server mounted in a FastAPI application; tools and routes share their data.

pip install fastapi uvicorn
uvicorn examples.web_app:app
toolcrib call add_task text="water the plants" -t http://127.0.0.1:8000/tools/mcp
curl http://127.0.0.1:8000/tasks
"""

from __future__ import annotations

from fastapi import FastAPI

from toolcrib import MCPServer

TASKS: list[str] = []
server = MCPServer("tasks", instructions="Tasks are short sentences in the imperative.")


@server.tool
def add_task(text: str) -> int:
    """Add a task to the list.

    Args:
        text: What is to be done

    Returns:
        The number of tasks
    """
    TASKS.append(text)
    return len(TASKS)


tools = server.asgi()
app = FastAPI(lifespan=tools.lifespan)
app.mount("/tools", tools)  # clients connect to /tools/mcp


@app.get("/tasks")
def list_tasks() -> list[str]:
    return TASKS
