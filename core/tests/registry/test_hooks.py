"""Hooks: who is called with what, and that a fault stays with its plugin."""

from __future__ import annotations

import logging
from pathlib import Path
from textwrap import dedent

import pytest

from sgl_core.registry import Registries
from sgl_core.registry.hooks import Hooks
from sgl_core.testing.fake_dists import fake_dist

MODULE = dedent("""
    from sgl_core.api import ChoiceSpec, hookimpl
    class Good:
        seen = []
        @hookimpl
        def sgl_request_finished(self, rid, finish_reason):
            self.seen.append((rid, finish_reason))
            return rid
        @hookimpl
        def sgl_asgi_app(self, app):
            return ("good", app)
    class Raises:
        @hookimpl
        def sgl_request_finished(self): raise RuntimeError("on purpose")
        @hookimpl
        def sgl_asgi_app(self, app, config): raise RuntimeError("on purpose")
    class Quiet:
        @hookimpl
        def sgl_asgi_app(self, config): return None
    class Stranger:
        @hookimpl
        def sgl_no_such_event(self): pass
    class Wrong:
        @hookimpl
        def sgl_shutdown(self, when): pass
    good, raises, quiet, stranger, wrong = Good(), Raises(), Quiet(), Stranger(), Wrong()
    GOOD, RAISES, QUIET, STRANGER, WRONG = (
        ChoiceSpec(name=n, target=f"hook_plugins:{n}") for n in ("good", "raises", "quiet", "stranger", "wrong")
    )
    GONE = ChoiceSpec(name="gone", target="no_such_module:x")
""")


@pytest.fixture
def hooks(site: Path, caplog: pytest.LogCaptureFixture) -> Hooks:
    names = ("good", "raises", "quiet", "stranger", "wrong", "gone")
    entries = {"hooks": {name: f"hook_plugins:{name.upper()}" for name in names}}
    fake_dist(site, "acme", "1.0", entries, {"hook_plugins.py": MODULE})
    with caplog.at_level(logging.WARNING):
        return Hooks(Registries.discover(path=[str(site)]))


def test_plugins_that_do_not_fit_are_left_out_with_their_name(hooks: Hooks, caplog: pytest.LogCaptureFixture) -> None:
    assert hooks.names() == ["good", "quiet", "raises"]
    said = "\n".join(record.getMessage() for record in caplog.get_records("setup"))
    for words in ("'stranger' of acme 1.0", "'wrong' of acme 1.0", "'gone' of acme 1.0", "sgl_no_such_event", "when"):
        assert words in said


def test_a_hook_that_raises_stops_nobody(hooks: Hooks, caplog: pytest.LogCaptureFixture) -> None:
    answer = hooks.call("sgl_request_finished", rid="r", finish_reason="stop", prompt_tokens=1, completion_tokens=2)
    assert answer == ["r"]
    assert "hook sgl_request_finished of plugin 'raises' failed" in caplog.text
    assert "on purpose" in caplog.text


def test_applications_are_wrapped_in_turn(hooks: Hooks) -> None:
    assert hooks.wrap_app("app", None) == ("good", "app")


def test_without_plugins_nothing_happens() -> None:
    hooks = Hooks(Registries())
    assert hooks.names() == []
    assert hooks.call("sgl_shutdown") == []
    assert hooks.wrap_app("app", None) == "app"
