"""Config: nested access, JSON there and back, frozen, secrets starred."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgl_core.config import Config
from sgl_core.config.fields import fields


def test_nested_and_flat_access() -> None:
    config = Config({"page_size": 16, "attention_backend": "triton", "device": "cpu"})
    assert config.schedule.page_size == 16
    assert config.exec.kernel.attention_backend == "triton"
    assert config.device.device == "cpu"
    assert config.get("page_size") == 16
    assert config.parallel.tp_size == 1
    assert "page_size" in list(config.schedule)


def test_every_field_is_where_its_namespace_says() -> None:
    config = Config({})
    for name, declared in fields().items():
        section: Any = config
        for step in declared.namespace.split("."):
            section = getattr(section, step)
        assert getattr(section, name) == declared.default


def test_wrong_names_say_where_the_field_is() -> None:
    config = Config({})
    with pytest.raises(AttributeError, match=r"it is config\.schedule\.page_size"):
        config.parallel.page_size  # noqa: B018
    with pytest.raises(KeyError, match="Did you mean 'page_size'"):
        config.get("page_sizes")
    with pytest.raises(KeyError):
        Config({"nothing": 1})


def test_frozen() -> None:
    config = Config({})
    with pytest.raises(AttributeError, match="frozen"):
        config.schedule.page_size = 4
    with pytest.raises(AttributeError, match="frozen"):
        config.anything = 4
    assert config.replaced(page_size=4).get("page_size") == 4
    assert config.get("page_size") is None


def test_values_given_are_copied() -> None:
    sizes = [1, 2]
    config = Config({"cuda_graph_bs_decode": sizes})
    sizes.append(3)
    assert config.get("cuda_graph_bs_decode") == [1, 2]


VALUES = st.dictionaries(
    st.sampled_from([name for name, declared in fields().items() if declared.base_type is int]),
    st.integers(-5, 10**9),
    max_size=8,
)


@given(VALUES)
def test_json_there_and_back(values: dict[str, int]) -> None:
    config = Config({**values, "extra_metric_labels": {"device": "x"}, "attention_backend": "triton"})
    assert Config.from_json(config.to_json()) == config
    assert Config.from_dict(config.flat()) == config
    assert pickle.loads(pickle.dumps(config)) == config


def test_json_is_nested_by_subject() -> None:
    data = json.loads(Config({"moe_a2a_backend": "deepep"}).to_json())
    assert data["exec"]["moe"]["moe_a2a_backend"] == "deepep"
    assert data["device"]["device"] is None


def test_secrets_travel_but_do_not_show() -> None:
    config = Config({"api_key": "hunter2"})
    assert Config.from_json(config.to_json()).get("api_key") == "hunter2"
    assert "hunter2" not in repr(config)
    assert "hunter2" not in json.dumps(config.nested())
    assert config.nested(show_secrets=True)["serving"]["api_key"] == "hunter2"
