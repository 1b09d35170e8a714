"""The switch by which chat templates turn thinking on and off, under whatever name a template has it."""

from __future__ import annotations

import functools

from jinja2 import meta

from .core.service import Service
from .core.template_env import make_environment

SWITCHES = ("enable_thinking", "thinking")


def thinking_variables(service: Service, on: bool) -> dict[str, bool]:
    """Template variables that turn thinking on or off; empty where the template has no such switch, as for models that always think."""
    if service.template is None:
        return {}
    return dict.fromkeys(_switches(service.template.source), on)


@functools.lru_cache(maxsize=16)
def _switches(source: str) -> tuple[str, ...]:
    read = meta.find_undeclared_variables(make_environment().parse(source))
    return tuple(name for name in SWITCHES if name in read)
