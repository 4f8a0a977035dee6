"""What can be said of telemetry, and what makes no sense."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.errors import ConfigurationError
from toolcrib.policy import Telemetry


def test_nothing_is_watched_unless_it_is_asked_for() -> None:
    options = Telemetry()
    assert (options.prometheus, options.opentelemetry, options.metrics_open) == (False, False, False)
    assert (options.metrics_path, options.metrics_scope) == ("/metrics", "metrics:read")


@pytest.mark.parametrize("path", ["/", "/metrics", "/a/b-c_d.e~1"])
def test_the_page_of_figures_may_be_anywhere(path: str) -> None:
    assert Telemetry(prometheus=True, metrics_path=path).metrics_path == path


@pytest.mark.parametrize(
    ("options", "key", "words"),
    [
        ({"prometheus": "yes"}, "prometheus", "must be true or false, got 'yes'"),
        ({"opentelemetry": 1}, "opentelemetry", "must be true or false, got 1"),
        ({"metrics_open": None}, "metrics_open", "must be true or false, got None"),
        ({"metrics_path": "metrics"}, "metrics_path", "must be a path such as '/metrics', got 'metrics'"),
        ({"metrics_path": "/a?b"}, "metrics_path", "must be a path such as '/metrics', got '/a?b'"),
        ({"metrics_path": "/a\n"}, "metrics_path", "must be a path such as '/metrics', got '/a\\n'"),
        ({"metrics_path": 7}, "metrics_path", "must be a path such as '/metrics', got 7"),
        ({"metrics_open": True}, "metrics_open", "there are no metrics to open"),
        ({"metrics_scope": ""}, "metrics_scope", "must be one scope such as 'metrics:read', got ''"),
        ({"metrics_scope": None}, "metrics_scope", "must be one scope such as 'metrics:read', got None"),
        ({"metrics_scope": 5}, "metrics_scope", "must be one scope such as 'metrics:read', got 5"),
        ({"metrics_scope": "a b"}, "metrics_scope", "must be one scope such as 'metrics:read', got 'a b'"),
        ({"metrics_scope": "figures"}, "metrics_scope", "there are no metrics to protect"),
        (
            {"prometheus": True, "metrics_open": True, "metrics_scope": "figures"},
            "metrics_scope",
            "has no effect: metrics_open lets everybody read",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_key(options: dict[str, Any], key: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Telemetry(**options)
    assert (caught.value.key, caught.value.message) == (key, words)
