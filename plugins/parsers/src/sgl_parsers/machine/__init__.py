"""What the families share: a text source that can wait and rewind, and readers for JSON, parameters and Python calls."""

from . import json_reader
from .calls import CallSink
from .machine import Machine
from .source import Malformed, Source, Wait

__all__ = ["CallSink", "Machine", "Malformed", "Source", "Wait", "json_reader"]
