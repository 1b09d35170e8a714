"""Configuration: what may be set, what was asked for, what came of it, and why."""

from __future__ import annotations

from .config import Config
from .errors import ConfigError, RuleError
from .fields import fields
from .ledger import Entry, Ledger
from .resolve import Resolution, resolve
from .rule_order import RegisteredRule, check_rules
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
    "fields",
    "resolve",
]
