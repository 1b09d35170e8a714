"""Where processors come from: the registry, third parties included, and classes that requests bring."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import dill
import pytest
import torch

from sgl_core.registry import Registries
from sgl_core.testing.fake_dists import fake_dist
from sgl_torch.sampling import Sampler
from sgl_torch.sampling.processor_library import ProcessorLibrary
from sgl_torch.sampling.processors import ProcessorRow
from sgl_torch.sampling.serialized import load_serialized


class OnlyToken:
    """The reference system's form: parameters as one mapping a row, the request under __req__."""

    def __call__(self, logits: torch.Tensor, custom_param_list: list[dict[str, Any]]) -> torch.Tensor:
        for line, params in enumerate(custom_param_list):
            token = params["token"] + len(params["__req__"].output_ids) + params["__req__"].origin_input_ids[0]
            logits[line] = float("-inf")
            logits[line, token] = 0.0
        return logits


OnlyToken.__module__ = "__main__"
"""So that dill writes the class itself, as it does for one defined in a script."""


def serialized(what: Any) -> str:
    return json.dumps({"callable": dill.dumps(what, byref=False, recurse=True).hex()})


def one_row(params: dict[str, Any]) -> list[ProcessorRow]:
    return [ProcessorRow(rid="r", slot=0, generated=1, params=params, prompt_ids=[2], output_ids=[9])]


def test_by_name_one_instance_for_all(tmp_path: Path) -> None:
    library = ProcessorLibrary(Registries.discover())
    assert library.find("disallowed_tokens") is library.find("disallowed_tokens")
    with pytest.raises(ValueError, match=r"'nobody' is not known here \(known: allowed_tokens, deepseek"):
        library.find("nobody")


def test_a_third_party_s_processor_joins_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_of: Any
) -> None:
    specs = """
from sgl_core.api import ChoiceSpec

EVEN = ChoiceSpec(name="even", target="acme_even.processor:Even", summary="even tokens only")
"""
    processor = """
class Even:
    def __call__(self, logits, rows):
        logits[:, 1::2] = float("-inf")
"""
    fake_dist(
        tmp_path,
        "acme-even",
        entries={"logit_processors": {"even": "acme_even.specs:EVEN"}},
        modules={"acme_even/__init__.py": "", "acme_even/specs.py": specs, "acme_even/processor.py": processor},
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    sampler = Sampler(4, 2)
    sampler.find_processor = ProcessorLibrary(Registries.discover()).find
    sampler.admit(request_of(0, temperature=0.0, processor="even"))
    sampler.admit(request_of(1, temperature=0.0))
    tokens, _ = sampler.sample(torch.tensor([[0.0, 1.0, 2.0, 3.0]] * 2), [0, 1])
    assert tokens.tolist() == [2, 3]


def test_a_class_of_a_client_runs_where_that_is_allowed() -> None:
    text = serialized(OnlyToken)
    registries = Registries.discover()
    with pytest.raises(ValueError, match="--enable-custom-logit-processor"):
        ProcessorLibrary(registries).find(text)
    library = ProcessorLibrary(registries, serialized=True)
    processor = library.find(text)
    assert library.find(text) is processor
    logits = processor(torch.zeros(1, 9), one_row({"token": 3}))
    assert logits is not None
    assert logits.argmax(-1).tolist() == [3 + 1 + 2]


def test_only_so_many_classes_are_kept() -> None:
    library = ProcessorLibrary(Registries.discover(), serialized=True)
    first = library.find(serialized(OnlyToken))
    for number in range(64):
        library.find(json.dumps({"callable": dill.dumps(OnlyToken).hex(), "n": number}))
    assert library.find(serialized(OnlyToken)) is not first


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (json.dumps({"callable": b"nothing".hex()}), "cannot be loaded: UnpicklingError"),
        (json.dumps({"callable": pickle.dumps(5).hex()}), "cannot be loaded: TypeError"),
        (json.dumps({"callable": pickle.dumps(dict).hex()}), "a dict cannot be called"),
        (
            json.dumps({"callable": b"\x80\x04\x8c\x07nowhere\x94\x8c\x01X\x94\x93\x94.".hex()}),
            "No module named 'nowhere' .the class is pickled by name",
        ),
    ],
)
def test_what_is_no_processor_is_refused(payload: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_serialized(payload)
