"""The ids of legacy sessions: what they hold, and that nobody else can make or change one."""

from __future__ import annotations

import secrets

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.protocol.questions import relevant_capabilities
from toolcrib.protocol.revisions import LEGACY, NEWEST_LEGACY
from toolcrib.protocol.session_ids import MAX_LENGTH, VALID_S, SessionIds

KEY, OLD, OTHER = b"k" * 32, b"o" * 32, b"x" * 32
PROCESS = "0123456789abcdef"
ALL = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}


class Wall:
    now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


def make(ids: SessionIds, binding: str = "ada") -> str:
    return ids.seal(PROCESS, NEWEST_LEGACY, ALL, binding)[0]


@pytest.mark.parametrize("revision", LEGACY.values(), ids=list(LEGACY))
def test_an_id_holds_the_revision_the_capabilities_and_the_time(revision: object) -> None:
    wall = Wall()
    for capabilities in ({}, {"roots": {}}, {"elicitation": {}}, {"elicitation": {"url": {}}}, ALL):
        id_, sealed = SessionIds([KEY], wall=wall).seal(PROCESS, revision, capabilities, "ada")  # type: ignore[arg-type]
        assert sealed == (revision, capabilities, wall.now + VALID_S)
        assert SessionIds([KEY], wall=wall).open(id_, "ada") == sealed
        assert id_.startswith(f"1.{PROCESS}.")
        assert len(id_) <= MAX_LENGTH
        assert all("!" <= letter <= "~" for letter in id_)


def test_what_a_client_declares_comes_back_as_questions_look_at_it() -> None:
    declared = {"elicitation": {"form": {"x": 1}}, "sampling": {"tools": {}}, "roots": {"listChanged": True}}
    ids = SessionIds()
    id_, _ = ids.seal(PROCESS, NEWEST_LEGACY, relevant_capabilities(declared), "ada")
    opened = ids.open(id_, "ada")
    assert opened is not None
    assert opened.capabilities == {"elicitation": {"form": {}}, "sampling": {}, "roots": {}}


def test_an_id_is_for_one_principal_and_does_not_name_it() -> None:
    ids = SessionIds([KEY])
    id_ = make(ids, "key:ada@example.org")
    assert ids.open(id_, "key:ada@example.org") is not None
    for other in ("", "key:eve", "key:ada@example.or", "key:ada@example.org "):
        assert ids.open(id_, other) is None
    same = {len(make(ids, binding)) for binding in ("", "a", "b" * 5000, "\ud800")}
    assert same == {len(id_)}


def test_other_keys_open_nothing_and_replaced_keys_go_on_opening() -> None:
    old = make(SessionIds([OLD]))
    both = SessionIds([KEY, OLD])
    new = make(both)
    assert both.open(old, "ada") is not None
    assert SessionIds([KEY]).open(new, "ada") is not None
    assert SessionIds([KEY]).open(old, "ada") is None
    assert SessionIds([OTHER]).open(new, "ada") is None
    assert SessionIds().open(make(SessionIds()), "ada") is None


def test_an_id_can_be_opened_for_a_day() -> None:
    wall = Wall()
    ids = SessionIds([KEY], wall=wall)
    id_ = make(ids)
    wall.now += VALID_S - 1
    opened = ids.open(id_, "ada")
    assert opened is not None
    assert not ids.is_over(opened.until_s)
    assert ids.left_s(opened.until_s) == 1
    wall.now += 1
    assert ids.open(id_, "ada") is None
    assert ids.is_over(opened.until_s)


def test_every_changed_byte_is_seen() -> None:
    ids = SessionIds([KEY])
    id_ = make(ids)
    for place, letter in enumerate(id_):
        for other in {"A", "B", "0", "-", "+", "=", "."} - {letter}:
            assert ids.open(id_[:place] + other + id_[place + 1 :], "ada") is None
        assert ids.open(id_[:place], "ada") is None
        assert ids.open(id_[:place] + "A" + id_[place:], "ada") is None


def test_another_spelling_of_the_same_bytes_is_another_id() -> None:
    ids = SessionIds([KEY])
    while "-" not in (id_ := make(ids)).rpartition(".")[2]:
        pass
    head, _, seal = id_.rpartition(".")
    for spelling in (seal.replace("-", "+"), seal + "=", seal + "==", seal + "\n", " " + seal):
        assert ids.open(f"{head}.{spelling}", "ada") is None


@pytest.mark.parametrize("id_", ["", ".", "1..", "1.a.b", "ü", "1." + "x" * 400, "2.a." + "A" * 90, "\x00"])
def test_anything_else_is_no_id(id_: str) -> None:
    assert SessionIds([KEY]).open(id_, "ada") is None


@given(st.text(max_size=500), st.text(max_size=20))
def test_no_text_opens(id_: str, binding: str) -> None:
    ids = SessionIds([KEY])
    assert ids.open(id_, binding) is None
    assert ids.open(f"1.{PROCESS}.{id_}", binding) is None


@given(
    st.text(max_size=50),
    st.dictionaries(
        st.sampled_from(["elicitation", "sampling", "roots", "x"]),
        st.dictionaries(st.sampled_from(["form", "url", "y"]), st.just({})),
    ),
)
def test_every_client_gets_back_what_it_declared(
    binding: str, declared: dict[str, dict[str, object]]
) -> None:
    ids = SessionIds([secrets.token_bytes(32)])
    kept = relevant_capabilities(declared)
    kept = {name: parts if name == "elicitation" else {} for name, parts in kept.items()}
    id_, sealed = ids.seal(PROCESS, NEWEST_LEGACY, kept, binding)
    assert ids.open(id_, binding) == sealed == (NEWEST_LEGACY, kept, sealed.until_s)
