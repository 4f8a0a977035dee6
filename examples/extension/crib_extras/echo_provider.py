"""A model provider: a model that calls the first tool once, and then repeats the question."""

from toolcrib.agents import Final, Token, ToolCall


class EchoProvider:
    def __init__(self):
        self.status = "stopped"

    async def start(self, session):
        self.session, self.status = session, "ready"

    async def send(self, text):
        self.question, self.results, self.status = text, None, "working"

    async def answer(self, answers):
        self.results = answers

    async def events(self):
        if self.results is None and self.session.tools:
            yield ToolCall("call-1", self.session.tools[0].name, {})
            return
        yield Token(self.question)
        yield Final(self.question)
        self.status = "ready"

    async def stop(self):
        self.status = "stopped"
