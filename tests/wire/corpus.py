"""All cases, by group."""

from __future__ import annotations

from tests.wire import corpus_json, corpus_limits, corpus_params, corpus_shapes, corpus_text
from tests.wire.cases import Case

_SOURCES = (
    *(corpus_json.malformed, corpus_json.truncated, corpus_json.damaged, corpus_json.numbers),
    *(corpus_text.escapes, corpus_text.control_characters, corpus_text.bad_utf8, corpus_text.encodings),
    *(corpus_text.good_text, corpus_limits.repeated_keys, corpus_limits.not_repeated),
    *(corpus_limits.at_the_limits, corpus_limits.depths),
    *(corpus_shapes.no_messages, corpus_shapes.versions, corpus_shapes.ids, corpus_shapes.methods),
    *(corpus_shapes.params, corpus_shapes.key_case, corpus_shapes.notifications, corpus_shapes.responses),
    *(corpus_shapes.batches, corpus_params.envelopes, corpus_params.protocol_versions, corpus_params.names),
    *(corpus_params.arguments, corpus_params.cursors, corpus_params.tokens_and_levels, corpus_params.states),
    corpus_params.handshakes,
)

CORPUS: dict[str, list[Case]] = {source.__name__: list(source()) for source in _SOURCES}
