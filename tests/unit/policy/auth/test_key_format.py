"""What a key looks like, and that a torn one is told from a wrong one."""

from __future__ import annotations

import hashlib
import re

import pytest

from toolcrib.policy.auth.api_keys import PREFIX, hash_secret, is_complete_key, make_secret

SAMPLE = f"tck_{'A' * 43}2BxA51"


def test_a_key_is_a_prefix_and_256_bits_and_a_checksum() -> None:
    made = make_secret()
    assert re.fullmatch(r"tck_[A-Za-z0-9_-]{43}[0-9A-Za-z]{6}", made)
    assert PREFIX == "tck_"
    assert is_complete_key(made)


def test_no_two_keys_are_alike() -> None:
    assert len({make_secret() for _ in range(500)}) == 500


def test_the_checksum_is_the_same_everywhere_and_for_ever() -> None:
    assert is_complete_key(SAMPLE)
    assert is_complete_key(f"tck_{'_-9z' * 10}abc{'1sCDFW'}")


@pytest.mark.parametrize("place", range(53))
def test_a_key_with_one_character_changed_is_not_whole(place: int) -> None:
    other = "B" if SAMPLE[place] != "B" else "C"
    assert not is_complete_key(SAMPLE[:place] + other + SAMPLE[place + 1 :])


@pytest.mark.parametrize("length", range(53))
def test_a_key_that_is_cut_off_is_not_whole(length: int) -> None:
    assert not is_complete_key(SAMPLE[:length])


@pytest.mark.parametrize("text", [f"{SAMPLE}A", f" {SAMPLE}", f"{SAMPLE}\n", SAMPLE.replace("tck_", "TCK_")])
def test_a_key_with_more_around_it_is_not_whole(text: str) -> None:
    assert not is_complete_key(text)


def test_of_a_key_its_sha_256_is_kept() -> None:
    assert hash_secret("tck_x") == hashlib.sha256(b"tck_x").hexdigest()
