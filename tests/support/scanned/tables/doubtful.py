# doubts: guessed-handler, guessed-table, unresolved-option
"""Tables with things in them that only running tells."""


def describe() -> str:
    return " ".join(["Words", "that are", "joined."])


def more() -> list:
    return [{"name": n, "schema": {"type": "object", "properties": {}}} for n in sorted("b")]


TOOL_CONFIGS = {
    "with_lambda": {
        "description": "Has a lambda.",
        "schema": {"type": "object", "properties": {}},
        "handler": lambda arguments: "",
    },
    "described": {
        "description": describe(),
        "schema": {"type": "object", "properties": {}},
        "handler": describe,
    },
}
TOOL_DEFINITIONS = [*more()]
TOOL_HANDLERS = {"b": more}
