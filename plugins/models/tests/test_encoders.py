"""Encoders against transformers on tiny random weights: hidden states, poolings, pairs, mixed batches."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from sgl_core.api.sampling import SamplingParams
from sgl_core.api.worker import NewRequest, StepResult
from sgl_torch.sampling import Sampler
from sgl_torch.stepping import Stepper
from sgl_torch.testing import Driver, load_folder, tiny_encoders

EMBEDDERS = [name for name in tiny_encoders.CASES if name.endswith("Model")]
CLASSIFIERS = [name for name in tiny_encoders.CASES if not name.endswith("Model")]
TOLERANCE = 1e-5
LENGTHS = (1, 2, 9, 40, 9, 120)

Encoders = Callable[[str], tuple[Path, Any]]


@pytest.fixture(scope="session")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> Encoders:
    """``encoders(architecture)`` gives (checkpoint folder, transformers model)."""
    made: dict[str, tuple[Path, Any]] = {}

    def get(architecture: str) -> tuple[Path, Any]:
        if architecture not in made:
            folder = tmp_path_factory.mktemp(architecture)
            made[architecture] = folder, tiny_encoders.make(architecture, folder)
        return made[architecture]

    return get


def prompts(seed: int = 0) -> list[list[int]]:
    rng = random.Random(seed)
    return [[rng.randrange(3, 199) for _ in range(length)] for length in LENGTHS]


class Worker:
    """Steps of whole prompts."""

    def __init__(self, folder: Path, registries: Any) -> None:
        loaded = load_folder(folder, registries)
        self.notes = loaded.capacity.notes
        self.driver = Driver(loaded.runner)
        self.stepper = Stepper(loaded.runner, Sampler(199, 64))

    def step(self, texts: Sequence[Sequence[int]], seconds: Sequence[int] = (), embed: bool = True) -> StepResult:
        rows = [self.driver.start(text) for text in texts]
        new = [
            NewRequest(
                slot=row.slot,
                rid=str(row.slot),
                prompt_ids=row.tokens,
                output_ids=[],
                sampling=SamplingParams(),
                embed=embed,
                second_segment=seconds[at] if seconds else 0,
            )
            for at, row in enumerate(rows)
        ]
        return self.stepper.run(self.driver.batch([(row, len(row.tokens)) for row in rows], new))

    def vectors(self, texts: Sequence[Sequence[int]], seconds: Sequence[int] = ()) -> list[np.ndarray[Any, Any]]:
        result = self.step(texts, seconds)
        assert not result.errors
        return [result.embeddings[row] for row in range(len(texts))]


def with_pipeline(source: Path, target: Path, pooling: dict[str, Any], normalize: bool) -> Path:
    """A copy of a checkpoint with sentence-transformers' files."""
    shutil.copytree(source, target)
    modules = [
        {"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    if normalize:
        modules.append({"idx": 2, "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"})
    (target / "modules.json").write_text(json.dumps(modules))
    (target / "1_Pooling").mkdir()
    (target / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return target


@torch.no_grad()
def hidden(model: Any, tokens: list[int], second: int = 0) -> torch.Tensor:
    types = torch.tensor([[int(0 < second <= at) for at in range(len(tokens))]])
    states: torch.Tensor = model(torch.tensor([tokens]), token_type_ids=types).last_hidden_state[0]
    return states


@pytest.mark.parametrize("architecture", EMBEDDERS)
class TestEmbedders:
    def test_every_token_s_hidden_state(self, architecture: str, encoders: Encoders, registries: Any) -> None:
        folder, model = encoders(architecture)
        worker = Worker(folder, registries)
        rows = [worker.driver.start(text) for text in prompts()]
        batch = worker.driver.runner.prepare(worker.driver.batch([(row, len(row.tokens)) for row in rows]))
        with torch.inference_mode():
            got = worker.driver.runner.hidden(batch).split(list(LENGTHS))
        for text, states in zip(prompts(), got, strict=True):
            assert (states - hidden(model, text)).abs().max() < TOLERANCE

    def test_first_token_at_length_one_where_the_files_say_nothing(
        self, architecture: str, encoders: Encoders, registries: Any
    ) -> None:
        folder, model = encoders(architecture)
        for text, vector in zip(prompts(), Worker(folder, registries).vectors(prompts()), strict=True):
            want = torch.nn.functional.normalize(hidden(model, text)[0], dim=0)
            assert np.abs(vector - want.numpy()).max() < TOLERANCE

    def test_mean_by_the_publisher_s_files(
        self, architecture: str, encoders: Encoders, registries: Any, tmp_path: Path
    ) -> None:
        folder, model = encoders(architecture)
        pooling = {"word_embedding_dimension": 48, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
        worker = Worker(with_pipeline(folder, tmp_path / "m", pooling, normalize=False), registries)
        for text, vector in zip(prompts(), worker.vectors(prompts()), strict=True):
            assert np.abs(vector - hidden(model, text).mean(0).numpy()).max() < TOLERANCE

    def test_same_bits_in_any_batch(self, architecture: str, encoders: Encoders, registries: Any) -> None:
        worker = Worker(encoders(architecture)[0], registries)
        together = worker.vectors([*prompts(), *prompts(1)])
        for text, vector in zip([*prompts(), *prompts(1)], together, strict=True):
            assert np.array_equal(worker.vectors([text])[0], vector)


@pytest.mark.parametrize("architecture", CLASSIFIERS)
def test_logits_of_classes(architecture: str, encoders: Encoders, registries: Any) -> None:
    folder, model = encoders(architecture)
    worker = Worker(folder, registries)
    texts = prompts()
    for text, vector in zip(texts, worker.vectors(texts), strict=True):
        with torch.no_grad():
            want = model(torch.tensor([text])).logits[0]
        assert np.abs(vector - want.numpy()).max() < TOLERANCE


def test_second_text_of_a_pair_has_its_own_type(encoders: Encoders, registries: Any) -> None:
    folder, model = encoders("BertModel")
    texts, seconds = prompts()[2:], [4, 0, 3, 77]
    for text, second, vector in zip(texts, seconds, Worker(folder, registries).vectors(texts, seconds), strict=True):
        want = torch.nn.functional.normalize(hidden(model, text, second)[0], dim=0)
        assert np.abs(vector - want.numpy()).max() < TOLERANCE


def test_all_the_modes_of_sentence_transformers(encoders: Encoders, registries: Any, tmp_path: Path) -> None:
    folder, model = encoders("BertModel")
    text = prompts()[2]
    states = hidden(model, text)
    weights = torch.arange(1, 10).float().unsqueeze(1)
    wanted = {
        "cls": states[0],
        "max": states.amax(0),
        "mean_sqrt_len_tokens": states.sum(0) / 3.0,
        "weightedmean": (states * weights).sum(0) / weights.sum(),
        "lasttoken": states[-1],
    }
    for mode, want in wanted.items():
        made = with_pipeline(folder, tmp_path / mode, {"pooling_mode": mode}, normalize=True)
        want = torch.nn.functional.normalize(want, dim=0)
        assert np.abs(Worker(made, registries).vectors([text])[0] - want.numpy()).max() < TOLERANCE
    both = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}
    worker = Worker(with_pipeline(folder, tmp_path / "both", both, normalize=False), registries)
    assert np.abs(worker.vectors([text])[0] - torch.cat([states[0], states.mean(0)]).numpy()).max() < TOLERANCE


def test_a_pipeline_that_is_not_served_is_refused(encoders: Encoders, registries: Any, tmp_path: Path) -> None:
    folder = with_pipeline(encoders("BertModel")[0], tmp_path / "m", {"pooling_mode": "magic"}, normalize=False)
    with pytest.raises(ValueError, match="pooling mode magic is not served"):
        load_folder(folder, registries)
    (folder / "modules.json").write_text(
        json.dumps([{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}])
    )
    with pytest.raises(ValueError, match="names a module 'Dense'"):
        load_folder(folder, registries)


@pytest.mark.parametrize("config", [{"position_embedding_type": "relative_key"}, {"is_decoder": True}])
def test_another_arithmetic_is_refused(config: dict[str, Any], encoders: Encoders, registries: Any) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(config))}.* is not served"):
        load_folder(encoders("BertModel")[0], registries, config=config)


def test_checkpoints_of_larger_models_and_old_names_load(encoders: Encoders, registries: Any, tmp_path: Path) -> None:
    """As bert-base stores its encoder: a prefix, gamma and beta, heads, constants."""
    folder = encoders("BertModel")[0]
    shutil.copytree(folder, tmp_path / "m")
    stored = {
        "bert."
        + name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in load_file(folder / "model.safetensors").items()
    }
    stored |= {"cls.predictions.bias": torch.ones(199), "bert.embeddings.position_ids": torch.arange(128)[None]}
    save_file(stored, tmp_path / "m" / "model.safetensors")
    vector = Worker(tmp_path / "m", registries).vectors([prompts()[3]])[0]
    assert np.array_equal(vector, Worker(folder, registries).vectors([prompts()[3]])[0])


def test_no_kv_cache_is_reserved(encoders: Encoders, registries: Any) -> None:
    worker = Worker(encoders("BertModel")[0], registries)
    assert worker.driver.runner.pool.k == []
    assert any(note.startswith("KV cache: none") for note in worker.notes)


def test_text_is_not_generated_and_pieces_are_refused(encoders: Encoders, registries: Any) -> None:
    worker = Worker(encoders("BertModel")[0], registries)
    result = worker.step(prompts()[:2], embed=False)
    assert set(result.errors) == {0, 1}
    assert "generates no text" in result.errors[0]
    row = worker.driver.start(prompts()[3])
    new = NewRequest(
        slot=row.slot, rid="r", prompt_ids=row.tokens, output_ids=[], sampling=SamplingParams(), embed=True
    )
    assert not worker.stepper.run(worker.driver.batch([(row, 10)], [new])).embeddings
    assert "in pieces" in worker.stepper.run(worker.driver.batch([(row, 30)])).errors[0]


def test_one_request_s_infinity_is_its_own(encoders: Encoders, registries: Any, tmp_path: Path) -> None:
    folder = tmp_path / "m"
    shutil.copytree(encoders("BertModel")[0], folder)
    stored = load_file(folder / "model.safetensors")
    stored["embeddings.word_embeddings.weight"][198] = float("inf")
    save_file(stored, folder / "model.safetensors")
    result = Worker(folder, registries).step([[5, 6, 7], [5, 198, 7], [5, 6, 7]])
    assert list(result.errors) == [1]
    assert "not finite" in result.errors[1]
    assert np.array_equal(result.embeddings[0], result.embeddings[2])
