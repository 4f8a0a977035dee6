"""Fixtures: one PostgreSQL and one Redis for the tests of a worker, which use names of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.system.engines import (
    MissingServerError,
    Server,
    find_postgresql,
    find_redis,
    postgresql,
    redis,
)
from tests.support.system.requires import lack


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Server]:
    try:
        find_redis()
    except MissingServerError as error:
        lack(str(error))
    with redis() as server:
        yield server


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[Server]:
    try:
        find_postgresql("postgres")
    except MissingServerError as error:
        lack(str(error))
    with postgresql() as server:
        yield server
