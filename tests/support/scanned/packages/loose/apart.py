from toolcrib import Application, tool


class Needing(Application):
    def __init__(self, key: str) -> None:
        super().__init__(name="needing")
        self.key = key

    @tool
    def needed(self, a: int) -> int:
        """Made in another file."""
        return a
