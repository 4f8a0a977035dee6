"""Rules for text that is addressed to the model and not about the tool: instructions that somebody planted.

These are soft rules: they point, and a person decides. Knows the texts of one definition; the phrases that
give such text away are elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from toolcrib.catalog.lint.abroad import OVERRIDES_ABROAD, SECRECY_ABROAD
from toolcrib.catalog.lint.english import OVERRIDES, SECRECY
from toolcrib.catalog.lint.english_demands import DEMANDS, MEDDLES, PUSHES
from toolcrib.catalog.lint.folding import fold
from toolcrib.catalog.lint.phrases import Phrases, search, word_set
from toolcrib.catalog.lint.rule import Remark, Rule, Subject, each_parameter, quote
from toolcrib.catalog.lint.sentences import HANDING_OVER, OVERRIDING, REROUTING, SILENCING, Together
from toolcrib.catalog.lint.texts import Text

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
