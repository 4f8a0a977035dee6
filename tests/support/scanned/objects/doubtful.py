# doubts: unresolved-part
"""Tool objects whose parts are computed."""

import os


def compute() -> str:
    if os.sep == ":":
        return "Words for one machine."
    return "Words for others."


class Computed:
    name = "computed"
    description = compute()
    input_schema = {"type": "object", "properties": {}}

    async def execute(self, arguments: dict) -> dict:
        return {}
