"""A plan for the null platform, as the launcher would make it."""

import pytest

from sgl_core.api import ModelInfo
from sgl_core.config.config import Config
from sgl_core.plan import Plan, make_plan
from sgl_core.registry import Registries
from sgl_core.registry.platform import select_platform


@pytest.fixture(scope="session")
def null_plan():
    """``null_plan(**configuration)`` -> Plan."""
    registries = Registries.discover()
    facts = select_platform(registries, "null", {}).facts

    def make(**values) -> Plan:
        config = Config({"max_running_requests": 16, "page_size": 4, "max_total_tokens": 1024, **values})
        model = ModelInfo(architecture="Null", vocab_size=1000)
        return make_plan(registries=registries, config=config, facts=facts, model=model)

    return make
