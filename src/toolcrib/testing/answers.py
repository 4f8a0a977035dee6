"""The answers of a test to the questions of tools."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from toolcrib.context import Answer, Elicitation, Sampling, SamplingResult, URLElicitation
from toolcrib.validation.validator import Validator

Question = Elicitation | URLElicitation | Sampling
Answers = Mapping[str, Any] | Sequence[Any] | Callable[[Any], Any]

DECLINE = Answer("decline")
CANCEL = Answer("cancel")


class Questions:
    """The answers of a test, and the questions that were asked."""

    def __init__(self, answers: Answers) -> None:
        if isinstance(answers, str):
            raise TypeError("answers must be a mapping, a list or a function, not a string")
        self.asked: list[Question] = []
        self.is_checked = True
        self._answers = answers
        self._left = None if callable(answers) or isinstance(answers, Mapping) else list(answers)
        self._used: set[str] = set()
        self._unanswered: list[str] = []

    async def ask(self, question: Elicitation | URLElicitation) -> Answer:
        found = await self._find(question, question.message)
        if isinstance(found, Answer):
            return found
        if found is False or isinstance(question, URLElicitation):
            return Answer("accept") if found else DECLINE
        fields = question.schema.get("properties", {})
        if found is not True and not isinstance(found, Mapping):
            found = {next(iter(question.schema.get("required") or fields), "?"): found}
        content = {} if found is True else dict(found)
        defaults = {name: item["default"] for name, item in fields.items() if "default" in item}
        validator = Validator({"additionalProperties": False, **question.schema})
        if problems := validator.problems({**defaults, **content}):
            raise self._fail(f"The answer to {question.message!r} does not fit: {problems[0]}")
        return Answer("accept", content)

    async def sample(self, prompt: Sampling) -> SamplingResult:
        messages = prompt.messages
        given = [] if isinstance(messages, str) else [item.get("content") for item in messages]
        found = await self._find(
            prompt, messages if isinstance(messages, str) else SamplingResult(given).text
        )
        return found if isinstance(found, SamplingResult) else SamplingResult(str(found), model="test")

    async def _find(self, question: Question, text: str) -> Any:
        self.asked.append(question)
        answers = self._answers
        if callable(answers):
            found = answers(question)
            return await found if inspect.isawaitable(found) else found
        if isinstance(answers, Mapping):
            for part, answer in answers.items():
                if part in text:
                    self._used.add(part)
                    return answer
        elif self._left:
            return self._left.pop(0)
        raise self._fail(f"No answer was given for the question {text!r}")

    def _fail(self, problem: str) -> AssertionError:
        self._unanswered.append(problem)
        return AssertionError(problem)

    def check_answered(self) -> None:
        """Raise AssertionError for a question without an answer; a client of older versions cannot."""
        if self._unanswered:
            raise AssertionError(self._unanswered.pop(0))

    def check(self) -> None:
        """Raise AssertionError for a question without an answer, or an answer without a question."""
        if not self.is_checked:
            return
        self.check_answered()
        unused = [] if self._left is None else [repr(answer) for answer in self._left]
        if isinstance(self._answers, Mapping):
            unused = [repr(part) for part in self._answers if part not in self._used]
        if unused:
            asked = ", ".join(repr(getattr(each, "message", "a prompt")) for each in self.asked) or "none"
            raise AssertionError(f"No question used these answers: {', '.join(unused)}; questions: {asked}")
