"""Rules for URLs that data can be sent to, or that a client may fetch just by showing a text."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

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
