"""As many tools as a measurement needs: the shelf, and tools made from its kind of words.

Always the same ones. Names do not repeat; words do, as they do where one company writes thousands of tools.
"""

from __future__ import annotations

import random

from bench.shelf.tools import SHELF
from toolcrib.definition import ToolDefinition

_VERBS = (
    "get list create update delete archive restore export import approve reject assign merge split "
    "validate sync publish schedule cancel preview compare rename copy lock unlock audit tag rank "
    "notify estimate"
)
_NOUNS = (
    "account invoice contract shipment warehouse supplier employee timesheet ticket campaign audience "
    "coupon review catalog product variant bundle price payment refund payout ledger budget forecast "
    "report dashboard metric alert incident deployment cluster node volume snapshot bucket queue topic "
    "schema table column index pipeline dataset model experiment feature label annotation recording "
    "transcript meeting calendar room desk vehicle driver route stop parcel pallet container port "
    "vessel flight gate hotel guest booking tariff patient appointment prescription claim policy "
    "premium course lesson quiz grade student parent teacher library loan"
)
_SIDES = (
    "for one region; of the current quarter; across all stores; with its history; by external "
    "reference; in bulk; for the signed-in person; of a partner; without sending mail; in the sandbox; "
    "with attachments; as a draft"
)
_DETAILS = (
    "Needs the right to change master data.; Runs at most once a minute.; Answers with the new state.; "
    "Dates are in the time zone of the account.; Amounts are in cents.; Long lists come in pages.; What "
    "is missing stays as it was.; Older versions are kept for ninety days."
)
_PARAMETERS = (
    "reference: as printed on the document; limit: how many at most; since: not older than this; "
    "region: where; owner: who is responsible; reason: for the record; dry_run: only say what would "
    "happen; language: of the answer; format: how to write the answer; notify: whom to tell; amount: "
    "how much; note: free text"
)


def make_tools(count: int) -> list[ToolDefinition]:
    """The shelf, and so many made tools that there are `count`."""
    chance = random.Random(5)
    verbs, nouns = _VERBS.split(), _NOUNS.split()
    sides, details, parameters = (
        [part.strip() for part in text.split(";")] for text in (_SIDES, _DETAILS, _PARAMETERS)
    )
    tools = {definition.name: definition for definition in SHELF}
    while len(tools) < count:
        verb, noun, other, side = (chance.choice(words) for words in (verbs, nouns, nouns, sides))
        name = f"{verb}_{noun}_{other}" if noun != other else f"{verb}_{noun}"
        if name in tools:
            continue
        words = f"{verb.capitalize()} the {noun} of a {other} {side}. {' '.join(chance.sample(details, 2))}"
        chosen = [parameter.split(": ") for parameter in chance.sample(parameters, 3)]
        properties = {f"{noun}_id": {"type": "string", "description": f"Which {noun}."}} | {
            key: {"type": "string", "description": said.capitalize()} for key, said in chosen
        }
        schema = {"type": "object", "properties": properties, "required": [f"{noun}_id"]}
        tools[name] = ToolDefinition(name, words, schema)
    return list(tools.values())
