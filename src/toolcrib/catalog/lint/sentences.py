"""A second net under the phrases: words that have no business together in one sentence of a definition.

Phrases know how things are usually said. A sentence in which somebody dismisses instructions, or in which a
person is not to know, is caught here however it is put. Knows words only; each set was tried on real servers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from toolcrib.catalog.lint.phrases import Gist

_SENTENCE = re.compile(r"[^.!?;\n]*(?:\.(?=\w)[^.!?;\n]*)*[.!?;]?")  # a full stop inside a name ends nothing
_WORD = re.compile(r"[a-z][a-z']*|@|https?|~/")
_STEM = 6
_LONGEST = 240


@lru_cache(maxsize=64)  # several nets are cast over the same text, one after the other
def _split(reading: str) -> list[tuple[str, frozenset[str]]]:
    """The sentences with their words. A long one is a list or code, where words stand together by chance."""
    sentences = [text for text in _SENTENCE.findall(reading) if len(text) <= _LONGEST]
    return [(text, frozenset(_WORD.findall(text))) for text in sentences]


@dataclass(frozen=True)
class Together:
    """Sets of words that must all be met in one sentence, words that excuse it, and how they must stand."""

    groups: Sequence[str]
    unless: str = ""
    order: str = ""
    _sets: list[frozenset[str]] = field(init=False)
    _stems: list[frozenset[str]] = field(init=False)
    _excuses: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        sets = [frozenset(group.split()) for group in self.groups]
        object.__setattr__(self, "_sets", sets)
        object.__setattr__(self, "_excuses", frozenset(self.unless.split()))
        stems = [frozenset(word.partition("'")[0][:_STEM] for word in group) for group in sets]
        object.__setattr__(self, "_stems", [group for group in stems if not group & {"@", "~/"}])

    def is_in(self, gist: Gist) -> bool:
        return not any(map(gist.stems.isdisjoint, self._stems)) and self.find(gist.readings) is not None

    def find(self, readings: tuple[str, ...]) -> str | None:
        for reading in readings:
            for sentence, words in _split(reading):
                if any(map(words.isdisjoint, self._sets)) or not words.isdisjoint(self._excuses):
                    continue
                if not self.order or re.search(self.order, sentence):
                    return str(sentence.strip())
        return None


_ORDERS = (
    "instruction instructions guideline guidelines guardrail guardrails directive directives prompt prompts"
)
_WEAK_ORDERS = (
    "rule rules policy policies constraint constraints commands directions restrictions request requests"
    " orders"
)
_DISMISS = (
    "ignore ignored ignoring ignores disregard disregarded disregards forget forgotten overlook"
    " overlooked skip void cancel cancels cancelled canceled drop dropped bypass bypassed override"
    " overridden supersede supersedes superseded abandon abandoned irrelevant invalid suspended revoked"
    " bound lifted obsolete nullify nullified disobey violate"
)
_WHOSE = (
    "previous previously earlier prior preceding your you system platform safety trained above former"
    " user's developer's"
)
_PERSON = "user users user's human humans client customer person people anyone one somebody nobody owner"
_LEARN = (
    "know knows knowing tell telling told mention mentioned mentioning mentions inform informed informing"
    " notice notices noticed aware awareness learn learns suspect suspects word attention realise realize"
    " realises realizes show shown"
)
_NOT = "not never no nothing don't doesn't mustn't shouldn't won't isn't without nobody none neither"
_HAND = (
    "put paste quote set enter supply attach include dump give pass report send add fill provide copy"
    " submit write insert belongs goes encode forward upload append embed contain contains"
)
_HERE = (
    "here field argument parameter `this` arg value remark remarks note notes context salt signature metadata"
)
_MODEL_TALK = "conversation transcript dialogue dialog chat messages history prompt"
_ALL_OF_IT = "entire whole full complete verbatim unabridged everything far exact raw last previous earlier"
_PATHS = "~/ env credentials rsa passwd shadow netrc gnupg kubeconfig keychain"
_INSIDE = "content contents contains text output result results cat dump read open base encode inside"

OVERRIDING = (
    Together((_ORDERS, _DISMISS, _WHOSE), "template templates default case whitespace variable"),
    Together(
        (
            _WEAK_ORDERS,
            "ignore ignored disregard disregarded forget void bound overlook obsolete nullify disobey"
            " violate irrelevant",
            "previous previously earlier prior trained system safety platform guidelines you your user's",
        ),
        "case whitespace invalid cache firewall lint",
    ),
    Together(("obey obeys heed", "this me tool server text only", "user user's system rather instead alone")),
    Together(
        ("ignore disregard", "user user's human request requests", "and the that last"),
        "case agent id ids input if",
    ),
    Together((_ORDERS + " rules constraints restrictions", "off bind binds", "you your"), "turn"),
    Together(
        ("act behave proceed continue", "if though", "no without", "system", "prompt instructions rules")
    ),
)
_UNTOLD = (
    rf"(?:\b(?:not|never|no|nothing|nobody)|n't)(?: [\w']+){{0,4}}? (?:{'|'.join(_LEARN.split())})\b"
    r"|\bwithout (?:\w+ ){0,3}(?:attention|awareness|noticing|knowing|telling|informing|mentioning)\b"
)
SILENCING = (
    Together(
        (_PERSON, _LEARN, _NOT),
        "if when whether unless apart id ids ask asks error unknown exist exists found which",
        _UNTOLD,
    ),
    Together(("dark", "keep leave", _PERSON)),
    Together(("conceal hide", "fact", "that")),
    Together(("lie lies deceive mislead fool trick", _PERSON)),
    Together(
        (
            "secret hidden conceal hide",
            "from about fact keep",
            "user user's human person anyone customer client",
        ),
        "key",
    ),
    Together(
        ("omit exclude leave mention mentioning reference", "your", "reply response answer summary"),
        "if default when",
    ),
)
HANDING_OVER = (
    Together(
        (_MODEL_TALK, _HAND, _ALL_OF_IT, _HERE), "id ids template system_prompt optional if default model"
    ),
    Together((_PATHS, _INSIDE, _HAND), "path default profile variable"),
    Together(
        ("everything all whatever", "said written wrote typed told asked", "user you person", _HAND), "if"
    ),
    Together(
        ("prompt instructions", "you your", "given received have", "paste quote put repeat copy log"),
        "template if",
    ),
    Together(
        ("password passwords passphrase pin", "user's their his her", _HAND, "here know if have"),
        "reset new change",
    ),
    Together(
        ("private secret", "key keys", "user user's", "find found read open look", "you your"), "generate"
    ),
    Together(("list every all", "file files", "home", "directory folder", "this here field")),
    Together(
        ("names descriptions list tokens definitions", "other", "tools servers", "you your", _HAND + " list")
    ),
)
REROUTING = (
    Together(
        (
            "@ http https",
            "tool tools mail mails email emails message messages answer answers link links call calls"
            " invoice payment",
            "must always every each any replace instead whenever has",
            "send sent copy carry forward replace call run use have add append include bcc route pass",
        ),
        "example e docs documentation see visit default reference format returns url urls hostname valid"
        " starts",
    ),
    Together(
        (
            "after before each every",
            "answer answers reply response",
            "call send post",
            "argument answer result http",
        )
    ),
    Together(
        (
            "account iban recipient beneficiary payee",
            "instead replace change",
            "another other tool tools any",
            "use set",
        )
    ),
    Together(("shell terminal bash", "curl wget", "run execute use", "before then sh first")),
    Together(("before after", "called call calls", "me us", "content contents result output")),
)
