"""A middleware: log calls that take long, and hide tools tagged `internal` from everybody but `key:admin`."""

import logging
import time

logger = logging.getLogger("crib_extras")


class SlowCalls:
    def __init__(self, limit_s=1.0):
        self.limit_s = limit_s

    async def __call__(self, call, next):
        started = time.perf_counter()
        try:
            return await next(call)
        finally:
            took_s = time.perf_counter() - started
            if took_s >= self.limit_s:
                logger.warning("%s took %.1f s", call.tool.name, took_s)

    def visible(self, principal, tool):
        return "internal" not in tool.definition.tags or principal.name == "key:admin"
