# doubts: guessed-condition, guessed-list
"""Lists that depend on what only running tells."""

import os

from toolcrib import Application


class Depending(Application):
    def list_tools(self):
        tools = [self.always]
        if os.environ.get("SCANNED_NEVER_SET"):
            tools.append(self.sometimes)
        return tools

    def always(self) -> int:
        """Always."""
        return 1

    def sometimes(self) -> int:
        """Sometimes."""
        return 2


class Computing(Application):
    namespace = "computing"

    def list_tools(self):
        return [getattr(self, name) for name in dir(self) if name.startswith("do_")]

    def do_it(self) -> int:
        """Found by its name only."""
        return 1
