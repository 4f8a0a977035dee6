"""The registry against a simple model: whatever is done to it, both say the same."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from toolcrib import Tool, ToolNotFoundError, ToolRegistry
from toolcrib.errors import BatchError, DefinitionError
from toolcrib.names import shorten_name
from toolcrib.registry.index import Snapshot
from toolcrib.registry.registry import Change, OnDuplicate

LONG = "very_" * 14 + "long"
NAMES = st.sampled_from(
    ["echo", "Echo", "ECHO", "say", "delete", "de1ete", "modern", "modem", "a-b", LONG, "bad name"]
)
ALIASES = st.lists(st.sampled_from(["say", "Speak", "echo", "speak", "de1ete", "bad alias"]), max_size=2)
VERSIONS = st.sampled_from([None, "1", "2", "10", "2.0beta"])
ORDER = [None, "1", "2", "2.0beta", "10"]  # oldest first
POLICIES = st.sampled_from(["error", "keep", "replace"])
NAMESPACES = st.sampled_from([None, None, "", "ns", "NS"])
SPELLINGS = ["echo", "EcHo", "say", "speak", "delete", "DE1ETE", "modern", "modem", "a-b", LONG, "nobody", ""]
SPELLINGS += [f"ns_{name}" for name in SPELLINGS]
SPELT = st.builds(
    lambda name, version: name if version is None else f"{name}@{version}",
    st.sampled_from(SPELLINGS),
    VERSIONS,
)


@dataclass(frozen=True)
class Card:
    """What the model knows of one registered tool."""

    name: str
    version: str | None
    spellings: frozenset[str]
    origin: Any
    enabled: bool
    as_marked: bool

    @property
    def folded(self) -> str:
        return self.name.lower()


@dataclass
class Model:
    """Groups in order; every question is answered by looking at all cards."""

    groups: dict[str, list[Card]] = field(default_factory=dict)

    def copy(self) -> Model:
        return Model({folded: list(cards) for folded, cards in self.groups.items()})

    def owner(self, spelling: str) -> str | None:
        for folded, cards in self.groups.items():
            if any(spelling.lower() == other.lower() for card in cards for other in card.spellings):
                return folded
        return None

    def find(self, spelling: str) -> list[Card]:
        """All versions that a spelling means, newest first."""
        owner = self.owner(spelling)
        if owner is not None:
            return sorted(self.groups[owner], key=lambda card: -ORDER.index(card.version))
        base, at, version = spelling.rpartition("@")
        owner = self.owner(base) if at else None
        return [card for card in self.groups[owner] if card.version == version] if owner else []

    def listed(self) -> list[Card]:
        newest = (next((c for c in self.find(folded) if c.enabled), None) for folded in self.groups)
        return [card for card in newest if card is not None]

    def add(self, card: Card, policy: OnDuplicate) -> str | None:
        """The kind of change; None where the first was kept. Raises ValueError where it is refused."""
        twins = [other for other in self.groups.get(card.folded, []) if other.version == card.version]
        if twins and policy == "keep":
            return None
        if twins and policy == "error":
            raise ValueError
        for folded, cards in self.groups.items():
            taken = {spelling.lower() for other in cards for spelling in other.spellings}
            if folded != card.folded and any(spelling.lower() in taken for spelling in card.spellings):
                raise ValueError
        cards = self.groups.setdefault(card.folded, [])
        if not twins:
            cards.append(card)
            return "added"
        by_hand = twins[0].enabled != twins[0].as_marked
        cards[cards.index(twins[0])] = replace(card, enabled=twins[0].enabled) if by_hand else card
        return "replaced"


OFFERS = st.fixed_dictionaries(
    {"name": NAMES, "version": VERSIONS, "aliases": ALIASES, "enabled": st.sampled_from([True, True, False])}
)


class RegistryMachine(RuleBasedStateMachine):
    @initialize(policy=POLICIES)
    def begin(self, policy: OnDuplicate) -> None:
        self.registry = ToolRegistry(on_duplicate=policy)
        self.model = Model()
        self.revision = 0
        self.heard: list[Change] = []
        self.snapshots: list[tuple[Snapshot, Any]] = []
        self.registry.subscribe(self.heard.append)

    # --- what can be done ---

    @rule(offer=OFFERS, namespace=NAMESPACES, policy=POLICIES | st.none())
    def add(self, offer: dict[str, Any], namespace: str | None, policy: OnDuplicate | None) -> None:
        try:
            card = card_of(offer, namespace)
            kind = self.model.add(card, policy or self.registry.on_duplicate)
        except ValueError:
            with pytest.raises(DefinitionError):
                self.registry.add(tool_of(offer), namespace=namespace, on_duplicate=policy)
            return
        tool = tool_of(offer)
        stored = self.registry.add(tool, namespace=namespace, on_duplicate=policy)
        if kind is None:
            assert stored.origin is not tool.origin
        else:
            self.meet(card, tool)
            self.expect(kind, [card.name])

    @rule(
        offers=st.lists(OFFERS, max_size=4),
        strict=st.booleans(),
        namespace=NAMESPACES,
        policy=POLICIES | st.none(),
    )
    def add_all(
        self, offers: list[dict[str, Any]], strict: bool, namespace: str | None, policy: OnDuplicate | None
    ) -> None:
        model, tools = self.model.copy(), [tool_of(offer) for offer in offers]
        kinds, changed, refused = set(), {}, 0
        for offer, tool in zip(offers, tools, strict=True):
            try:
                card = replace(card_of(offer, namespace), origin=tool.origin)
                kind = model.add(card, policy or self.registry.on_duplicate)
            except ValueError:
                refused += 1
                continue
            if kind is not None:
                kinds.add(kind)
                changed[card.folded, card.version] = card.name
        if strict and refused:
            with pytest.raises(BatchError):
                self.registry.add_all(iter(tools), namespace=namespace, on_duplicate=policy, strict=True)
            return
        report = self.registry.add_all(iter(tools), namespace=namespace, on_duplicate=policy, strict=strict)
        assert [tool.name for tool in report.registered] == list(changed.values())
        assert len(report.errors) == refused
        self.model = model
        if changed:
            self.expect(kinds.pop() if len(kinds) == 1 else "changed", list(dict.fromkeys(changed.values())))

    @rule(offer=OFFERS)
    def replace(self, offer: dict[str, Any]) -> None:
        tool = tool_of(offer)
        try:
            card = card_of(offer, None)
            held = any(other.version == card.version for other in self.model.groups.get(card.folded, []))
            kind = self.model.add(card, "replace") if held else None
        except ValueError:
            held = False
        if not held:
            with pytest.raises((ToolNotFoundError, DefinitionError)):
                self.registry.replace(tool)
            return
        assert kind == "replaced"
        self.registry.replace(tool)
        self.meet(card, tool)
        self.expect("replaced", [card.name])

    @rule(spelling=SPELT)
    def remove(self, spelling: str) -> None:
        cards = self.model.find(spelling)
        if not cards:
            with pytest.raises(ToolNotFoundError):
                self.registry.remove(spelling)
            return
        self.registry.remove(spelling)
        folded = cards[0].folded
        self.model.groups[folded] = [card for card in self.model.groups[folded] if card not in cards]
        if not self.model.groups[folded]:
            del self.model.groups[folded]
        self.expect("removed", list(dict.fromkeys(card.name for card in cards)))

    @rule(spelling=SPELT, enabled=st.booleans())
    def switch(self, spelling: str, enabled: bool) -> None:
        act = self.registry.enable if enabled else self.registry.disable
        cards = self.model.find(spelling)
        if not cards:
            with pytest.raises(ToolNotFoundError):
                act(spelling)
            return
        act(spelling)
        changed = [card for card in cards if card.enabled is not enabled]
        held = self.model.groups[cards[0].folded]
        for card in changed:
            held[held.index(card)] = replace(card, enabled=enabled)
        if changed:
            word = "enabled" if enabled else "disabled"
            self.expect(word, list(dict.fromkeys(card.name for card in changed)))

    @rule()
    def keep_a_snapshot(self) -> None:
        self.snapshots.append((self.registry.snapshot, answers(self.registry.snapshot)))

    # --- what must hold ---

    @invariant()
    def lists_agree(self) -> None:
        expected = [card.origin for card in self.model.listed()]
        assert [tool.origin for tool in self.registry] == expected
        assert [tool.origin for tool in self.registry.get_all()] == expected
        assert len(self.registry) == len(expected)
        assert len(self.registry.entries()) == sum(map(len, self.model.groups.values()))

    @invariant()
    def lookups_agree_in_every_spelling(self) -> None:
        for base in SPELLINGS:
            for spelling in (base, base.upper(), *(f"{base}@{version}" for version in ORDER)):
                cards = self.model.find(spelling)
                newest = next((card for card in cards if card.enabled), None)
                tool = self.registry.try_get(spelling)
                assert (tool and tool.origin) is (newest and newest.origin), spelling
                assert (spelling in self.registry) is (newest is not None)
            versions = [tool.origin for tool in self.registry.versions(base)]
            assert versions == [card.origin for card in self.model.find(base)]

    @invariant()
    def every_effective_change_is_one_revision_and_one_event(self) -> None:
        assert self.registry.revision == self.revision == len(self.heard)
        assert [change.revision for change in self.heard] == list(range(1, self.revision + 1))
        assert self.registry.snapshot.revision == self.revision

    @invariant()
    def snapshots_never_change(self) -> None:
        for snapshot, before in self.snapshots:
            assert answers(snapshot) == before

    # --- inside ---

    def meet(self, card: Card, tool: Tool) -> None:
        """The model's card is of this very tool."""
        held = self.model.groups[card.folded]
        position = next(i for i, other in enumerate(held) if other.version == card.version)
        held[position] = replace(held[position], origin=tool.origin)

    def expect(self, kind: str, names: list[str]) -> None:
        self.revision += 1
        assert (self.heard[-1].kind, self.heard[-1].names) == (kind, tuple(names))


def tool_of(offer: dict[str, Any]) -> Tool:
    return Tool.from_function(lambda: offer, **offer)


def card_of(offer: dict[str, Any], namespace: str | None) -> Card:
    prefix = f"{namespace}_" if namespace else ""
    if " " in offer["name"] or any(" " in alias for alias in offer["aliases"]):
        raise ValueError
    full = prefix + offer["name"]
    name = shorten_name(full, 64 if prefix else 128)
    aliases = {prefix + alias for alias in offer["aliases"]}
    return Card(
        name, offer["version"], frozenset({name, full} | aliases), None, offer["enabled"], offer["enabled"]
    )


def answers(snapshot: Snapshot) -> tuple[Any, ...]:
    return (snapshot.revision, snapshot.tools, [snapshot.find(spelling) for spelling in SPELLINGS])


TestRegistry = RegistryMachine.TestCase
TestRegistry.settings = settings(stateful_step_count=20)
