"""A model and an attention backend from outside generate in the worker's own process, and answer as transformers does."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import torch
from stranger_environment import Environment
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import Starcoder2Config, Starcoder2ForCausalLM

PROMPT = [7, 3, 99, 42, 5, 8, 120, 11, 64, 2, 31, 17, 150, 9]
NEW = 8

SCRIPT = dedent("""
    import json, sys
    from sgl_core.serve import Engine

    if __name__ == "__main__":
        folder, prompt, settings = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
        with Engine(folder, **settings) as engine:
            answer = engine.generate(
                input_ids=prompt, sampling_params={"max_new_tokens": 8, "temperature": 0, "ignore_eos": True}
            )
            plan = engine.prepared.plan
            print(json.dumps({"ids": answer["output_ids"], "selection": plan.selection, "options": plan.options}))
""")


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """A tiny random StarCoder2 with a word tokenizer, and transformers' greedy answer to the prompt."""
    folder = tmp_path_factory.mktemp("starcoder2")
    torch.manual_seed(3)
    config = Starcoder2Config(
        vocab_size=199,
        hidden_size=48,
        intermediate_size=100,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
        max_position_embeddings=128,
        sliding_window=None,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = Starcoder2ForCausalLM(config).eval().float()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    tokenizer = Tokenizer(models.WordLevel({f"w{i}": i for i in range(199)}, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "w1", "eos_token": "w2"}))
    ids = list(PROMPT)
    with torch.no_grad():
        for _ in range(NEW):
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    answer = ids[len(PROMPT) :]
    assert len(set(answer)) > 3  # an answer that could not be right by accident
    return folder, answer


def generate(environment: Environment, folder: Path, **settings: Any) -> Any:
    script = environment.root / "generate.py"
    script.write_text(SCRIPT)
    chosen = {"dtype": "float32", "max_total_tokens": 512, "device": "cpu", **settings}
    done = environment.run(str(script), str(folder), json.dumps(PROMPT), json.dumps(chosen))
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_strangers_model_and_backend_answer_as_transformers(
    stranger: Environment, checkpoint: tuple[Path, list[int]]
) -> None:
    folder, expected = checkpoint
    option = "example_attention.block=5"
    told = generate(stranger, folder, attention_backend="example_attention", plugin_option=[option])
    assert told["ids"] == expected
    assert told["selection"]["models"]["dist"] == "sgl-example-model"
    assert told["selection"]["attention"]["dist"] == "sgl-example-attention"
    assert told["options"]["example_attention.block"] == 5


def test_the_vendors_value_serves_with_what_its_rule_says(
    stranger: Environment, checkpoint: tuple[Path, list[int]]
) -> None:
    folder, expected = checkpoint
    told = generate(stranger, folder, attention_backend="example_vendor", inline=True)
    assert told["ids"] == expected
    assert told["selection"]["attention"]["name"] == "torch_native"


def test_by_default_nothing_of_the_strangers_is_chosen(
    stranger: Environment, checkpoint: tuple[Path, list[int]]
) -> None:
    told = generate(stranger, checkpoint[0], inline=True)
    assert told["ids"] == checkpoint[1]
    assert not told["selection"]["attention"]["dist"].startswith("sgl-example")


def test_a_wrong_option_is_refused(stranger: Environment, checkpoint: tuple[Path, list[int]]) -> None:
    def refusal(*options: str) -> str:
        return stranger.sgl("serve", str(checkpoint[0]), "--device", "cpu", *options, status=1)

    backend = ("--attention-backend", "example_attention", "--plugin-option")
    assert "did you mean example_attention.block" in refusal(*backend, "example_attention.blok=5")
    assert "takes int, not 'many'" in refusal(*backend, "example_attention.block=many")
    unused = refusal("--plugin-option", "example_attention.block=5")
    assert "is chosen in attention, not example_attention" in unused


CHAT = dedent("""
    import json, sys
    from sgl_core.serve import Engine

    if __name__ == "__main__":
        folder, settings, body = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
        with Engine(folder, inline=True, **settings) as engine:
            messages = body.pop("messages")
            answer = engine.chat(messages, **body)
            print(json.dumps({"answer": answer, "selection": engine.prepared.plan.selection}))
""")


def test_a_strangers_parser_and_grammar_shape_the_answer(
    stranger: Environment, checkpoint: tuple[Path, list[int]], tmp_path: Path
) -> None:
    """The parser is found by ``auto`` from the chat template, the grammar backend is chosen by flag."""
    for file in checkpoint[0].iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    template = "{% if tools %}Write <<call name {...}>>.{% endif %}{% for m in messages %}{{ m.content }} {% endfor %}"
    (tmp_path / "chat_template.jinja").write_text(template)
    script = stranger.root / "chat.py"
    script.write_text(CHAT)
    settings = {
        "dtype": "float32",
        "max_total_tokens": 512,
        "device": "cpu",
        "tool_call_parser": "auto",
        "grammar_backend": "example_words",
    }
    body = {
        "messages": [{"role": "user", "content": "w7 w3 w99"}],
        "regex": "(w5|w6)",
        "max_tokens": 4,
        "temperature": 0,
    }
    done = stranger.run(str(script), str(tmp_path), json.dumps(settings), json.dumps(body))
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["selection"]["tool_parsers"]["dist"] == "sgl-example-output"
    assert told["selection"]["grammars"]["dist"] == "sgl-example-output"
    assert told["answer"]["choices"][0]["message"]["content"].strip() in ("w5", "w6")
