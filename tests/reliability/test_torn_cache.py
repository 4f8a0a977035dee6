"""A truncated or corrupted cache file is a cache miss, nothing worse."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path

import pytest

from tests.support.records.catalogs import ADAPTER, MODELS
from tests.support.system.source_folders import write
from toolcrib import build_catalog, get_catalog_cached
from toolcrib.catalog.build import unseal

pytestmark = pytest.mark.row("G4")

MUTATIONS = 10_000


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"bridges/mcp_adapter.py": ADAPTER, "bridges/models.py": MODELS})
    get_catalog_cached()
    return tmp_path / ".cache/tool_catalog.json"


def flip(data: bytes, place: int, bit: int) -> bytes:
    changed = bytearray(data)
    changed[place] ^= 1 << bit
    return bytes(changed)


def mutate(data: bytes, dice: random.Random) -> bytes:
    """What disks, networks and crashes do to a file."""
    kind, place, length = dice.randrange(6), dice.randrange(len(data)), dice.randrange(1, 64)
    match kind:
        case 0:
            return flip(flip(data, place, dice.randrange(8)), dice.randrange(len(data)), dice.randrange(8))
        case 1:
            return data[:place] + bytes(length) + data[place + length :]  # a block that was never written
        case 2:
            return data[:place] + data[place + length :]
        case 3:
            return data[:place] + dice.randbytes(length) + data[place:]
        case 4:
            return data + data[place:]
        case _:
            return data[:place] + bytes(len(data) - place)


def test_g4_ten_thousand_damaged_files_are_not_one_of_them_loaded(cache: Path) -> None:
    data = cache.read_bytes()
    assert unseal(data) is not None
    dice = random.Random(4)
    count = 0
    for end in range(len(data)):
        assert unseal(data[:end]) is None, f"cut at {end}"
        count += 1
    for place, bit in product(range(len(data)), range(8)):
        assert unseal(flip(data, place, bit)) is None, f"bit {bit} of byte {place}"
        count += 1
    for _ in range(max(MUTATIONS - count, 2_000)):
        changed = mutate(data, dice)
        assert changed == data or unseal(changed) is None, changed
    assert unseal(data) is not None


def test_g4_a_damaged_file_is_rebuilt_and_overwritten(cache: Path) -> None:
    data, truth = cache.read_bytes(), build_catalog()
    dice = random.Random(44)
    for _ in range(25):
        changed = data[: dice.randrange(len(data))] if dice.random() < 0.5 else mutate(data, dice)
        cache.write_bytes(changed)
        assert get_catalog_cached() == truth
        assert cache.read_bytes() == data
