"""Words that planted instructions are made of: as patterns, and (`..._WORDS`) as what must occur first.

Knows English words only.
"""

from __future__ import annotations

from toolcrib.catalog.lint.phrases import one_of

GAP = r"[^.!?;]{0,40}?"
NEAR = r"[^.!?;]{0,25}?"
NOT = one_of(
    "do_not don't dont never must_not mustn't should_not shouldn't cannot can't not_to refrain_from avoid"
    " need_not"
)
NOT_WORDS = "not don't don dont never mustn shouldn cannot can refrain avoid"
EARLIER = one_of(
    "previous prior earlier preceding foregoing above former past existing original initial other these those"
)
ORDERS = one_of(
    "instructions? prompts? directives? directions guidelines? guidance commands? orders"
    " guardrails? programming"
)
ORDER_WORDS = (
    "instructions prompts directives directions guidelines guidance commands orders guardrails programming"
)
RULES = one_of(
    "rules? polic(?:y|ies) restrictions? constraints? limitations? safeguards? context training messages?"
)
RULE_WORDS = (
    "rule rules policy policies restrictions constraints limitations safeguards context training messages"
)
MASTER = one_of("system developer'?s? operator'?s? host'?s? user'?s? safety your")
USER = (
    r"(?:the |your |an?y? |this )?(?:end[- ]?)?(?:users?|humans?|persons?|people"
    r"|customers?|operators?|anyone|anybody"
    r"|them|him|her)"
)
USER_WORDS = (
    "user users human humans person persons people customers operators anyone anybody them him her nobody no"
)
TALK = (
    r"(?:conversations?|chats?|dialogues?|dialogs?|discussion|transcripts?|message history|chat history"
    r"|chat log"
    r"|messages of (?:the|this) (?:chat|conversation)|(?:previous|prior|earlier|all|user) (?:messages"
    r"|prompts)"
    r"|messages (?:so far|above|until now)|system (?:prompt|message|instructions)|context window"
    r"|your (?:reasoning|instructions|prompt|context|memory|thoughts)|chain of thought"
    r"|tool (?:definitions|list|descriptions)|list of (?:all )?(?:of )?(?:your |available |the )*tools)"
)
TALK_WORDS = (
    "conversation chats chat dialogs discussion transcript history messages prompts system context"
    " reasoning instructions memory thoughts tools tool chain"
)
PRIVATE = (
    r"(?:api[- ]?keys?|passwords?|passphrases?|credentials|secrets?|secret keys?|private keys?|ssh keys?"
    r"|access tokens?|auth tokens?|tokens?|environment variables|env vars|cookies|credit card|card numbers?"
    r"|seed phrases?|wallets?|personal data)"
)
PRIVATE_WORDS = (
    "key keys password passphrase credentials secrets token tokens environment env cookies card seed"
    " wallets personal"
)
GIVE_WORDS = (
    "include pass send provide put paste attach append copy supply submit insert give forward transmit"
    " upload embed place add deliver leak exfiltrate smuggle encode fill store save write post share"
    " report feed"
)
GIVE = f"(?:{one_of(GIVE_WORDS)}|hand (?:it |them )?over)"
GIVE_WORDS += " hand"
LOOK_WORDS = (
    "read open load cat fetch retrieve get access collect gather look find dump print grab extract obtain"
    " view check search list scan harvest"
)
LOOK = one_of(LOOK_WORDS.replace("look", "look_up"))
FILES = (
    r"(?:~/\.|\$home|%appdata%|\.ssh\b|id_rsa|id rsa|id_ed25519|id ed25519|/etc/(?:passwd|shadow)|\.env\b"
    r"|\.aws\b"
    r"|\.kube\b|\.netrc|\.npmrc|\.pypirc|\.gnupg|\.bash_history|\.git-credentials|mcp\.json|mcp config"
    r"|claude_desktop_config|claude desktop config|/proc/self/environ|wallet\.dat|credentials\.json"
    r"|authorized_keys"
    r"|keychain|(?:home|root|user'?s?) (?:directory|folder))"
)
FILE_WORDS = (
    "home appdata ssh rsa ed25519 passwd shadow env aws kube netrc npmrc pypirc gnupg bash git mcp claude"
    " environ wallet credentials authorized keychain directory folder config cursor docker"
)
WHEN = one_of("when(?:ever)? if each_time every_time any_time before after while as_soon_as once upon")
WHEN_WORDS = "when whenever if each every any before after while as once upon"
