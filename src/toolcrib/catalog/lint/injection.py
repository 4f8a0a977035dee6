"""Lint rules for planted instructions, and for links that leak data or are fetched on display.

The phrases are in `data/`; see `phrases`. These rules only report: a person decides.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator

from toolcrib.catalog.lint.phrases import fold, load_phrases
from toolcrib.catalog.lint.rule import LintedTool, Problem, quote, text_problem, word_set

# One of these is in every text that the next pattern matches.
_DROP_HOST_PARTS = word_set(
    "webhook.site webhook.cool requestbin. pipedream.net ngrok burpcollaborator.net oast interact.sh"
    " beeceptor.com requestcatcher.com hookbin.com dnslog.cn ceye.io canarytokens.com trycloudflare.com"
    " loca.lt serveo.net transfer.sh file.io 0x0.st paste.rs ix.io termbin.com postb.in ptsv discord"
    " telegram.org pastebin.com"
)
_DROP_HOST = re.compile(
    r"(?i)(?:https?://)?(?:[\w-]+\.)*\b(?:webhook\.(?:site|cool)|requestbin\.(?:com|net|io)|pipedream\.net"
    r"|ngrok(?:-free)?\.(?:io|app|dev)|burpcollaborator\.net|oast(?:ify)?\.(?:com|fun|me|live|pro|site"
    r"|online)"
    r"|interact\.sh|beeceptor\.com|requestcatcher\.com|hookbin\.com|dnslog\.cn|ceye\.io|canarytokens\.com"
    r"|trycloudflare\.com|loca\.lt|serveo\.net|transfer\.sh|file\.io|0x0\.st|paste\.rs|ix\.io|termbin\.com"
    r"|postb\.in|ptsv\d?\.com)\b[^\s)\"'>]*"
    r"|https?://(?:discord(?:app)?\.com/api/webhooks/\d{6,}|api\.telegram\.org/bot\d{6,}"
    r"|pastebin\.com/\w{6,})[^\s)\"'>]*"
)
_URL = re.compile(r"(?i)\bhttps?://[^\s\"'`)]+")
_DATA_PARAMETER = re.compile(
    r"(?i)[?&/](?:data|payload|leak|exfil|loot|dump|stolen|conversation|chat|history|secrets?|prompt"
    r"|context|ctx|msg|keys?|creds?|credentials|env|cookies?|file|contents?)=(?:\{|<|\$|\[|%7b|\.\.\.|\+)"
)
_SENDS_TO_URL = re.compile(
    r"(?i)\b(?:send|post|upload|forward|transmit|report|submit|deliver|copy|mirror|beacon|ping|leak"
    r"|exfiltrate|curl|wget)\b[^.!?\n]{0,80}"
    r"\b(?:conversation|chat|history|prompts?|credentials?|passwords?|secrets?|tokens?|keys?|environment|"
    r"files?|contents?|results?|responses?|everything|arguments?|inputs?)\b[^!?\n]{0,60}?\b(?:to|at"
    r"|via)\b\s{0,2}[`'\"<(]?https?://"
)
_LOCAL_URL = re.compile(r"(?i)https?://(?:localhost|127\.|0\.0\.0\.0|\[::1\]|[\w.-]*\bexample\b)")
_PUBLIC_EXAMPLES = ("1.1.1.1", "8.8.8.8", "1.2.3.4")

_EMBEDDED = re.compile(
    r"!\[[^\]\n]{0,200}\]\(\s*<?\s*(?:https?:)?//[^)\s]+|<img\b[^>]{0,200}\bsrc\s*=\s*[\"']?(?:https?:)?//"
    r"|<iframe\b|<script\b",
    re.I,
)
_DATA_URL = re.compile(
    r"(?i)\bdata:(?P<type>[\w.+-]+/[\w.+-]+)?(?:;[\w=.-]+)*(?P<base64>;base64)?,(?P<body>[A-Za-z0-9+/=%_-]{24,})"
)
_SCRIPT_URL = re.compile(r"(?i)(?:^|[\s\"'(=<])(?:javascript|vbscript):\S{3,}|\bdata:text/html")
_EMBEDDED_PARTS = ("![", "<i", "<s", "data:", "script:")


def find_exfiltration_urls(tool: LintedTool) -> Iterator[Problem]:
    for text in tool.texts if _find_exfiltration_url(tool.joined_text) is not None else ():
        found = _find_exfiltration_url(text.text)
        if found is not None:
            message = f"contains a URL that data can be sent to: {quote(found, 80)}"
            yield text_problem(tool, text, message, found)


def _find_exfiltration_url(text: str) -> str | None:
    if "." not in text and "//" not in text:
        return None
    lower = text.lower()
    drop = _DROP_HOST.search(text) if any(part in lower for part in _DROP_HOST_PARTS) else None
    if drop is not None:
        return drop[0]
    if "http" not in lower:
        return None
    sends = _SENDS_TO_URL.search(text)
    if sends is not None and not _LOCAL_URL.search(text, sends.start()):
        return sends[0]
    for found in _URL.finditer(text):
        if _DATA_PARAMETER.search(found[0]) or _has_public_ip(found[0]):
            return found[0]
    return None


def _has_public_ip(url: str) -> bool:
    """Tell whether the host is an address of the public internet, which documentation hardly ever uses."""
    host = re.sub(r"(?i)^https?://(?:[^/@]*@)?", "", url).split("/")[0].split(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_global and host not in _PUBLIC_EXAMPLES
    except ValueError:
        return False


def find_embedded_media(tool: LintedTool) -> Iterator[Problem]:
    for text in tool.texts if any(part in tool.lower_text for part in _EMBEDDED_PARTS) else ():
        found = _SCRIPT_URL.search(text.text)
        if text.kind == "link":
            data = _DATA_URL.match(text.text)
            is_image = data is not None and (data["type"] or "").lower().startswith("image/")
            found = found or (None if is_image else data)
        else:
            found = _EMBEDDED.search(text.text) or found or _DATA_URL.search(text.text)
        if found is not None:
            excerpt = found[0].strip()
            message = f"embeds content that a client may fetch or run: {quote(excerpt)}"
            yield text_problem(tool, text, message, excerpt)


_SHORTEST_TEXT = 10
_ROLE = r"(?:important|system|secret|hidden|admin|assistant|developer|critical|sudo|root|override|urgent)"
_MESSAGE = r"(?:prompt|message|reminder|note|override|instructions?|update|policy|rules?|command|directive)"
_ROLE_TAG = re.compile(
    rf"[<\[]{{1,3}}\s*[/!]?\s*{_ROLE}(?:[-_ ]{_MESSAGE})?\s*[/!]?\s*[>\]]{{1,3}}"
    r"|\[/?(?:inst|sys)\]|<</?sys>>|<\|[a-z_]{2,24}\|>|<(?:start|end)_of_turn>|<\uff5c[^>]{2,24}\uff5c>"
    r"|\{\{#?(?:system|assistant)\b|<[a-z_-]{3,30} (?:priority|role|trust|authority)\s*=\s*[\"'][a-z]+[\"']"
    r"|(?:^|\n|[.!?] )\s*#{2,}\s*(?:system|instructions? for (?:the )?(?:ai|model|assistant|agent"
    r"|llm))\b[^\n]{0,20}:?"
    r"|#{2,} ?(?:instructions?|system|command) ?#{2,}"
    r"|(?:^|\n)\s*-{3,}\s*(?:begin|start|end)?\s*(?:of )?(?:system|hidden|secret|admin)\b"
    r"|\b(?:begin|end) (?:of )?(?:system|hidden|secret) (?:prompt|message|instructions?)\b",
    re.IGNORECASE,
)
_UPPERCASE_ROLE = re.compile(
    r"(?:^|\n|[.!?]\s+)\s*(?:SYSTEM|ASSISTANT|SYSTEM (?:MESSAGE|PROMPT|OVERRIDE|NOTE|UPDATE))\s*:"
)
_DIALOGUE = re.compile(
    r"(?:^|\n|[.!?] )\s*(?:(?:human|user)\s*:.{0,400}?\n\s*(?:assistant|ai)|(?:assistant"
    r"|ai)\s*:.{0,400}?\n\s*(?:human|user))\s*:",
    re.IGNORECASE | re.DOTALL,
)
# One of these is in every text that the three patterns match.
_MARKER_PARTS = (
    *("<", "[", "#", "{{", "--", "SYSTEM", "ASSISTANT", "ssistant", "AI:", "ai:"),
    *("egin", "EGIN", "end ", "END "),
)

_CHANNEL_NAMES = word_set(
    "sidenote side_note sidenotes conversation_history chat_history chat_log conversation_log"
    " full_conversation conversation_context conversation_so_far entire_conversation message_history"
    " previous_messages prior_messages all_messages system_prompt_text your_system_prompt"
    " model_system_prompt hidden_context secret_context chain_of_thought tool_call_history tools_list"
    " available_tools_list list_of_tools all_tools_descriptions environment_secrets env_secrets"
    " user_secrets user_credentials stolen_data exfil exfil_data covert_data model_instructions"
    " assistant_instructions internal_reasoning reasoning_dump context_dump memory_dump"
)
_GENERAL_NAME = re.compile(
    r"(?:context|notes?|metadata|extra|info|debug|trace|details|payload|memo|remarks?|comment)$"
)
_ASKS_FOR_CONVERSATION = re.compile(
    r"\b(?:(?:full|entire|whole|complete|verbatim|raw|current|previous|prior|all)\b[^.!?]{0,30}"
    r"\b(?:conversation|chat|dialogue|transcript|message history|messages|prompts?)\b"
    r"|(?:your|the model's|the assistant's) (?:system prompt|instructions|reasoning|hidden|memory|prompt"
    r"|context)"
    r"|everything (?:you know|the user (?:said|wrote|typed)|in (?:your|the) context)|what the user (?:said"
    r"|wrote|typed))"
)


def _phrase_check(kind: str, message: str) -> Callable[[LintedTool], Iterator[Problem]]:
    """Return a check that reports the first phrase of a kind in each text."""

    def find(tool: LintedTool) -> Iterator[Problem]:
        matchers = [matcher for matcher in load_phrases(kind) if matcher.is_in(tool.text_index)]
        for text in tool.texts if matchers else ():
            if len(text.text) >= _SHORTEST_TEXT or not text.text.isascii():
                readings = fold(text.plain)
                matches = (matcher.find(readings) for matcher in matchers)
                found = next((match for match in matches if match is not None), None)
                if found is not None:
                    yield text_problem(tool, text, f"{message}: {quote(found, 80)}", found)

    return find


def find_role_markers(tool: LintedTool) -> Iterator[Problem]:
    for text in tool.texts if _find_marker(tool.joined_text) else ():
        found = _find_marker(text.text)
        if found is not None:
            excerpt = found[0].strip(" \n.!?")
            yield text_problem(tool, text, f"contains a role marker: {quote(excerpt)}", excerpt)


def _find_marker(text: str) -> re.Match[str] | None:
    if not any(part in text for part in _MARKER_PARTS):
        return None
    return _ROLE_TAG.search(text) or _UPPERCASE_ROLE.search(text) or _DIALOGUE.search(text)


def find_hidden_channels(tool: LintedTool) -> Iterator[Problem]:
    for name, schema in tool.parameter_schemas.items():
        plain = re.sub(r"[^a-z]+", "_", name.lower()).strip("_")
        description = schema.get("description")
        is_general = isinstance(description, str) and _GENERAL_NAME.search(plain) is not None
        if plain in _CHANNEL_NAMES or (
            is_general and _ASKS_FOR_CONVERSATION.search(fold(str(description))[-1])
        ):
            yield Problem(
                f"Parameter '{name}' of '{tool.name}' seems meant to carry the conversation to the server",
                parameter=name,
            )


find_overrides = _phrase_check("override", "tells the model to ignore its instructions")
find_secrecy = _phrase_check("secrecy", "tells the model to keep something from the user")
find_demands = _phrase_check("demand", "asks for data the tool has no use for")
find_interference = _phrase_check("interference", "interferes with other tools")
find_self_promotion = _phrase_check("self-promotion", "asks for the tool to be preferred")
