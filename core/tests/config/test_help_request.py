"""A request for help needs no complete command line, and follows the plugin policy in front of it."""

from __future__ import annotations

import pytest

from sgl_core.config import ConfigError
from sgl_core.config.serve_options import discover


@pytest.mark.parametrize("argv", [["--help"], ["-h", "attention"], ["--help=attention"], ["m", "--help", "nonsense"]])
def test_help_is_no_unknown_flag(argv: list[str]) -> None:
    assert "commands" in discover(argv, env={})


def test_the_policy_before_help_holds() -> None:
    assert discover(["--safe-mode", "--help"], env={}).policy.safe_mode
    with pytest.raises(ConfigError, match="no such flag"):
        discover(["--no-such-flag", "--help"], env={})
