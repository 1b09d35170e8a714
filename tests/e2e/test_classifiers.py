"""Tiny classifiers and rerankers through HTTP against transformers: labels, probabilities, pairs, several at a time."""

from __future__ import annotations

import concurrent.futures
import json
import math

import pytest
import torch

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"w{n}" for n in range(150))]


def save(folder, architecture, config):
    """A random model of an architecture with a word-level tokenizer; returns transformers' model and tokenizer."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    from sgl_torch.testing import tiny_encoders

    model = tiny_encoders.make(architecture, folder)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | config))
    backend = Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS)}, "[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    bert = architecture.startswith("Bert")
    pair = "[CLS] $A [SEP] $B:1 [SEP]:1" if bert else "[CLS] $A [SEP] [SEP] $B [SEP]"
    special = [("[CLS]", 2), ("[SEP]", 3)]
    backend.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair=pair, special_tokens=special)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )
    tokenizer.save_pretrained(folder)
    return model, tokenizer


def logits(model, tokenizer, *texts):
    with torch.no_grad():
        encoded = tokenizer(*texts, return_tensors="pt", return_token_type_ids=True)
        return model(**encoded).logits[0].tolist()


@pytest.fixture(scope="module")
def reranker(start_server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reranker")
    model, tokenizer = save(folder, "BertForSequenceClassification", {})
    return start_server("--model-path", str(folder)), model, tokenizer


@pytest.fixture(scope="module")
def classifier(start_server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("classifier")
    names = {"0": "sport", "1": "politics", "2": "weather"}
    model, tokenizer = save(folder, "RobertaForSequenceClassification", {"id2label": names})
    return start_server("--model-path", str(folder)), model, tokenizer


def test_a_reranker_scores_pairs_as_transformers_does(reranker):
    server, model, tokenizer = reranker
    query, documents = "w1 w2 w3", ["w4", "w5 w6 w7 w8 w9", "w3 w2 w1", "w100 " * 60]
    wanted = [1 / (1 + math.exp(-logits(model, tokenizer, query, text)[0])) for text in documents]
    found = server.post("/v1/rerank", {"query": query, "documents": documents}).json()["results"]
    assert [entry["index"] for entry in found] == sorted(range(4), key=lambda at: -wanted[at])
    assert {entry["index"]: entry["relevance_score"] for entry in found} == {
        at: pytest.approx(score, abs=1e-5) for at, score in enumerate(wanted)
    }
    pairs = server.post("/v1/score", {"text_1": query, "text_2": documents}).json()["data"]
    assert [entry["score"] for entry in pairs] == pytest.approx(wanted, abs=1e-5)


def test_classes_have_their_names_and_probabilities(classifier):
    server, model, tokenizer = classifier
    texts = ["w1 w2", "w3", "w4 w5 w6 w7"]
    data = server.post("/classify", {"input": texts}).json()["data"]
    for text, entry in zip(texts, data, strict=True):
        values = logits(model, tokenizer, text)
        assert entry["probs"] == pytest.approx(torch.tensor(values).softmax(0).tolist(), abs=1e-5)
        assert entry["label"] == ["sport", "politics", "weather"][values.index(max(values))]
    native = server.post("/classify", {"text": texts[0]}).json()
    assert native["embedding"] == pytest.approx(logits(model, tokenizer, texts[0]), abs=1e-5)


def test_many_at_a_time_are_as_alone(classifier):
    server, _, _ = classifier
    texts = [" ".join(f"w{(7 * at + step) % 150}" for step in range(1 + at % 40)) for at in range(60)]
    alone = [server.post("/classify", {"text": text}).json()["embedding"] for text in texts]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        together = list(pool.map(lambda text: server.post("/classify", {"text": text}).json()["embedding"], texts))
    assert together == alone
    batch = server.post("/classify", {"text": texts}).json()
    assert [entry["embedding"] for entry in batch] == alone


def test_other_routes_say_why_not(classifier, reranker):
    server = classifier[0]
    assert "tells 3 classes apart" in server.post("/rerank", {"query": "w1", "documents": ["w2"]}).text
    for body, path in (({"input": "w1"}, "/v1/embeddings"), ({"prompt": "w1"}, "/v1/completions")):
        response = reranker[0].post(path, body)
        assert response.status_code == 400
        assert "/v1/rerank" in response.json()["error"]["message"]
