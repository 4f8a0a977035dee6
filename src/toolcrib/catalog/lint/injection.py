"""Rules for text that is addressed to the model and not about the tool: instructions that somebody planted.

These are soft rules: they point, and a person decides. Knows the texts of one definition; the phrases that
give such text away are elsewhere.

A second net under the phrases: words that have no business together in one sentence of a definition.

Phrases know how things are usually said. A sentence in which somebody dismisses instructions, or in which a
person is not to know, is caught here however it is put. Knows words only; each set was tried on real servers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from toolcrib.catalog.lint.normalize import fold
from toolcrib.catalog.lint.phrases import (
    DEMANDS,
    MEDDLES,
    OVERRIDES,
    OVERRIDES_ABROAD,
    PUSHES,
    SECRECY,
    SECRECY_ABROAD,
    Gist,
    Phrases,
    search,
    word_set,
)
from toolcrib.catalog.lint.rule import Remark, Rule, Subject, Text, each_parameter, quote

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


_SHORTEST = 10
_SPEAKER = r"(?:important|system|secret|hidden|admin|assistant|developer|critical|sudo|root|override|urgent)"
_SPEECH = r"(?:prompt|message|reminder|note|override|instructions?|update|policy|rules?|command|directive)"
_MARKER = re.compile(
    rf"[<\[]{{1,3}}\s*[/!]?\s*{_SPEAKER}(?:[-_ ]{_SPEECH})?\s*[/!]?\s*[>\]]{{1,3}}"
    r"|\[/?(?:inst|sys)\]|<</?sys>>|<\|[a-z_]{2,24}\|>|<(?:start|end)_of_turn>|<\uff5c[^>]{2,24}\uff5c>"
    r"|\{\{#?(?:system|assistant)\b|<[a-z_-]{3,30} (?:priority|role|trust|authority)\s*=\s*[\"'][a-z]+[\"']"
    r"|(?:^|\n|[.!?] )\s*#{2,}\s*(?:system|instructions? for (?:the )?(?:ai|model|assistant|agent"
    r"|llm))\b[^\n]{0,20}:?"
    r"|#{2,} ?(?:instructions?|system|command) ?#{2,}"
    r"|(?:^|\n)\s*-{3,}\s*(?:begin|start|end)?\s*(?:of )?(?:system|hidden|secret|admin)\b"
    r"|\b(?:begin|end) (?:of )?(?:system|hidden|secret) (?:prompt|message|instructions?)\b",
    re.IGNORECASE,
)
_SIGNS = (
    "<",
    "[",
    "#",
    "{{",
    "--",
    "SYSTEM",
    "ASSISTANT",
    "ssistant",
    "AI:",
    "ai:",
    "egin",
    "EGIN",
    "end ",
    "END ",
)
_SHOUTED_ROLE = re.compile(
    r"(?:^|\n|[.!?]\s+)\s*(?:SYSTEM|ASSISTANT|SYSTEM (?:MESSAGE|PROMPT|OVERRIDE|NOTE|UPDATE))\s*:"
)
_TURNS = re.compile(
    r"(?:^|\n|[.!?] )\s*(?:(?:human|user)\s*:.{0,400}?\n\s*(?:assistant|ai)|(?:assistant"
    r"|ai)\s*:.{0,400}?\n\s*(?:human|user))\s*:",
    re.IGNORECASE | re.DOTALL,
)
_CHANNELS = word_set(
    "sidenote side_note sidenotes conversation_history chat_history chat_log conversation_log"
    " full_conversation conversation_context conversation_so_far entire_conversation message_history"
    " previous_messages prior_messages all_messages system_prompt_text your_system_prompt"
    " model_system_prompt hidden_context secret_context chain_of_thought tool_call_history tools_list"
    " available_tools_list list_of_tools all_tools_descriptions environment_secrets env_secrets"
    " user_secrets user_credentials stolen_data exfil exfil_data covert_data model_instructions"
    " assistant_instructions internal_reasoning reasoning_dump context_dump memory_dump"
)
_WIDE_CHANNELS = re.compile(
    r"(?:context|notes?|metadata|extra|info|debug|trace|details|payload|memo|remarks?|comment)$"
)
_ASKS_FOR_TALK = re.compile(
    r"\b(?:(?:full|entire|whole|complete|verbatim|raw|current|previous|prior|all)\b[^.!?]{0,30}"
    r"\b(?:conversation|chat|dialogue|transcript|message history|messages|prompts?)\b"
    r"|(?:your|the model's|the assistant's) (?:system prompt|instructions|reasoning|hidden|memory|prompt"
    r"|context)"
    r"|everything (?:you know|the user (?:said|wrote|typed)|in (?:your|the) context)|what the user (?:said"
    r"|wrote|typed))"
)


def _finder(
    *kinds: Phrases, words: str, nets: Sequence[Together] = ()
) -> Callable[[Subject], Iterator[Remark]]:
    """A rule that points at the first phrase of a kind in each text. `words`: 'tells the model to ...'."""

    def find(subject: Subject) -> Iterator[Remark]:
        patterns = [pattern for kind in kinds for pattern in kind.apply(subject.gist)]
        cast = [net for net in nets if net.is_in(subject.gist)]
        for text in subject.texts if patterns or cast else ():
            if len(text.text) >= _SHORTEST or not text.text.isascii():
                readings = fold(text.plain)
                found = search(patterns, readings)
                if found is None:
                    found = next((hit for net in cast if (hit := net.find(readings)) is not None), None)
                if found is not None:
                    yield _point(subject, text, f"{words}: {quote(found, 80)}", found)

    return find


def _point(subject: Subject, text: Text, words: str, excerpt: str) -> Remark:
    return Remark(f"{text.label} of '{subject.name}' {words}", None, text.parameter, excerpt)


def find_role_markers(subject: Subject) -> Iterator[Remark]:
    for text in subject.texts if _holds_marker(subject.joined) else ():
        found = _holds_marker(text.text)
        if found is not None:
            excerpt = found[0].strip(" \n.!?")
            yield _point(subject, text, f"holds a mark of another speaker: {quote(excerpt)}", excerpt)


def _holds_marker(text: str) -> re.Match[str] | None:
    if not any(sign in text for sign in _SIGNS):
        return None
    return _MARKER.search(text) or _SHOUTED_ROLE.search(text) or _TURNS.search(text)


def find_hidden_channels(subject: Subject) -> Iterator[Remark]:
    for name, schema in each_parameter(subject):
        plain = re.sub(r"[^a-z]+", "_", name.lower()).strip("_")
        words = schema.get("description")
        is_wide = isinstance(words, str) and _WIDE_CHANNELS.search(plain) is not None
        if plain in _CHANNELS or (is_wide and _ASKS_FOR_TALK.search(fold(str(words))[-1])):
            yield Remark(
                f"Parameter '{name}' of '{subject.name}' looks made to carry the conversation away",
                parameter=name,
            )


_READ = "read the text as the model would; if you did not write it, do not use the tool"
RULES = (
    Rule(
        "overrides-instructions",
        "warning",
        "A text tells the model to set its instructions aside",
        "A definition describes a tool. Whatever tells the model to forget its orders is an attack, or"
        " reads like one.",
        _READ,
        _finder(
            OVERRIDES, OVERRIDES_ABROAD, words="tells the model to set its orders aside", nets=OVERRIDING
        ),
        in_check=True,
    ),
    Rule(
        "asks-for-secrecy",
        "warning",
        "A text tells the model to keep something from the user",
        "What a tool does must not depend on the person not knowing.",
        _READ,
        _finder(SECRECY, SECRECY_ABROAD, words="asks the model to keep quiet", nets=SILENCING),
        in_check=True,
    ),
    Rule(
        "role-marker",
        "warning",
        "A text holds the mark of another speaker: a system tag, a chat template's sign",
        "Models give such marks the weight of the system; a description has no use for them.",
        "remove the mark, or write it in words",
        find_role_markers,
        in_check=True,
    ),
    Rule(
        "demands-data",
        "warning",
        "A text asks the model for the conversation, secrets or private files",
        "A parameter is for what the tool needs; what the model saw elsewhere is not the tool's to ask for.",
        _READ,
        _finder(DEMANDS, words="asks for what is not the tool's", nets=HANDING_OVER),
        in_check=True,
    ),
    Rule(
        "meddles-with-tools",
        "warning",
        "A text says how another tool is to be used against its user",
        "One server's words reach into another's calls: a copy to a stranger, another payee.",
        _READ,
        _finder(MEDDLES, words="meddles with other tools", nets=REROUTING),
        in_check=True,
    ),
    Rule(
        "hidden-channel",
        "warning",
        "A parameter looks made to carry the conversation away",
        "Models fill in `conversation_history` or `sidenote` without being asked twice.",
        "drop it, or name and describe exactly what the tool needs",
        find_hidden_channels,
        in_check=True,
    ),
    Rule(
        "pushes-itself",
        "advice",
        "A text wants the tool to be called first, always or instead of all others",
        "Such words drown out the user's, and when two servers use them the model has to break one's orders.",
        "say when the tool helps; leave the order to the model",
        _finder(PUSHES, words="pushes the tool to the front"),
    ),
)
