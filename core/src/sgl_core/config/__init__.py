"""Configuration: what may be set, what was asked for, what came of it, and why.

The names below load their module when they are first used, so that ``sgl serve --help`` pays for the declarations only.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config import Config
    from .errors import ConfigError, RuleError
    from .ledger import Entry, Ledger
    from .resolver import Resolution, resolve
    from .rule_order import RegisteredRule, check_rules
    from .serve_options import parse_serve_argv
    from .served import check_served
    from .server_args import ServerArgs

__all__ = [
    "Config",
    "ConfigError",
    "Entry",
    "Ledger",
    "RegisteredRule",
    "Resolution",
    "RuleError",
    "ServerArgs",
    "check_rules",
    "check_served",
    "parse_serve_argv",
    "resolve",
]

_MODULES = {
    "Config": "config",
    "ConfigError": "errors",
    "RuleError": "errors",
    "Entry": "ledger",
    "Ledger": "ledger",
    "Resolution": "resolver",
    "resolve": "resolver",
    "RegisteredRule": "rule_order",
    "check_rules": "rule_order",
    "ServerArgs": "server_args",
    "parse_serve_argv": "serve_options",
    "check_served": "served",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f".{_MODULES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
