"""Results made short enough for a model, and refusals in the shape of results.

Knows content blocks and how long they are. Refuses to know providers and tools.
"""

from __future__ import annotations

from toolcrib import codec
from toolcrib.content import Block, Result, text_block
from toolcrib.errors import ToolError

_MAX_BLOCKS = 100


def refuse(words: str) -> Result:
    """The result of a call that was not made."""
    return Result([text_block(words)], is_error=True, error=ToolError(words))


def fit(result: Result, limit_chars: int) -> tuple[Result, bool]:
    """The result, or as much of it as fits in so many characters, with a note; and whether it was cut."""
    if _measure(result) <= limit_chars:
        return result, False
    kept: list[Block] = []
    left = limit_chars
    content = result.content or [text_block(codec.encode_text(result.structured_content))]
    for block in content:
        text = block.get("text") if block.get("type") == "text" else None
        if isinstance(text, str):
            kept.append(text_block(_cut(text, left)))
            left = max(0, left - len(text))
        elif (size := len(codec.encode(block))) <= left:
            kept.append(block)
            left -= size
        else:
            kept.append(text_block(f"[{block.get('type')} of {size} characters, left out]"))
        if len(kept) > _MAX_BLOCKS or left == 0:
            break
    dropped = len(content) - len(kept)
    if dropped > 0:
        kept.append(text_block(f"[{dropped} more parts, left out]"))
    # The data would say all of it again; what is left of the text says as much as fits.
    return Result(kept, is_error=result.is_error, error=result.error), True


def _measure(result: Result) -> int:
    """Characters of the larger of the two forms, words and data; whichever is sent, it fits."""
    words = sum(
        len(str(block.get("text", ""))) if block.get("type") == "text" else len(codec.encode(block))
        for block in result.content
    )
    data = len(codec.encode(result.structured_content)) if result.is_structured else 0
    return max(words, data)


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[cut: {len(text) - limit} of {len(text)} characters left out]"
