"""/generate: from its body to requests of the core, and from answers to its own shape, whole or as a stream."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from sgl_core.serve.core.answer import Answer
from sgl_core.serve.core.constraint import constraint
from sgl_core.serve.core.errors import RequestError, refuse, refuse_unserved
from sgl_core.serve.core.events import Event, Piece, Started
from sgl_core.serve.core.logit_processor import logit_processor
from sgl_core.serve.core.prompts import prompt_list
from sgl_core.serve.core.request import TextRequest
from sgl_core.serve.core.service import Service
from sgl_core.serve.core.validate import (
    NAMES,
    check_integer,
    fit_context,
    logprob_options,
    sampling_params,
    shown,
)
from sgl_core.serve.http.sse import DONE, error_event, event

from .meta import meta_info
from .protocol import UNSERVED, GenerateRequest

MAX_TOP_LOGPROBS = 128
DEFAULT_MAX_TOKENS = 128
_OWN = frozenset({"n", "regex", "ebnf", "json_schema", "structural_tag", "stream_interval", "sampling_seed"})


@dataclass(slots=True, kw_only=True)
class Generation:
    """One call, translated. ``several`` says that the answer is a list."""

    service: Service
    requests: list[TextRequest]
    several: bool
    texts: bool
    """Whether logprobs carry the tokens' texts."""
    incremental: bool
    begun: float = field(default_factory=time.monotonic)

    def of(self, choice: int) -> TextRequest:
        """The request of a choice."""
        for request in self.requests:
            if choice < request.n:
                return request
            choice -= request.n
        raise IndexError(choice)


async def translate(body: GenerateRequest, service: Service) -> Generation:
    """Check everything and tokenize. Raises RequestError."""
    refuse_unserved(body.extras(), UNSERVED)
    card = service.card
    if (body.text is None) == (body.input_ids is None):
        raise refuse("text", "give either text or input_ids")
    source = "text" if body.text is not None else "input_ids"
    prompts, several = prompt_list(body.text if source == "text" else body.input_ids, source, card)
    if isinstance(prompts[0], str) != (source == "text"):
        raise refuse(source, "must be text" if source == "text" else "must be token ids")
    rids = _rids(body.rid, len(prompts))
    requests = []
    for row, prompt in enumerate(prompts):
        values = cast("Mapping[str, Any]", _each(body.sampling_params, row, len(prompts), "sampling_params") or {})
        encoded = await service.encoder.prompt(prompt, source)
        request = _request(body, service, values, encoded.ids, row, len(prompts), source)
        request.rid = rids[row]
        requests.append(request)
    several = several or any(request.n > 1 for request in requests)
    return Generation(
        service=service,
        requests=requests,
        several=several,
        texts=bool(body.return_text_in_logprobs),
        incremental=service.incremental if body.incremental is None else body.incremental,
    )


def _request(
    body: GenerateRequest, service: Service, values: Mapping[str, Any], ids: list[int], row: int, rows: int, source: str
) -> TextRequest:
    card = service.card
    unknown = sorted(set(values) - set(NAMES) - _OWN)
    if unknown:
        raise refuse(f"sampling_params.{unknown[0]}", "there is no such sampling parameter")
    values = dict(values)
    names = {}
    if values.get("seed") is None:
        values["seed"], names = values.get("sampling_seed"), {"seed": "sampling_seed"}
    sampling = sampling_params(values, card, names=names, max_new_tokens=DEFAULT_MAX_TOKENS)
    room = fit_context(sampling, len(ids), card, param=source, limit_param="max_new_tokens")
    wanted = bool(_each(body.return_logprob, row, rows, "return_logprob"))
    start = _each(body.logprob_start_len, row, rows, "logprob_start_len")
    start = -1 if start is None else check_integer(start, "logprob_start_len", -1, len(ids) - 1)
    top = check_integer(
        _each(body.top_logprobs_num, row, rows, "top_logprobs_num") or 0, "top_logprobs_num", 0, MAX_TOP_LOGPROBS
    )
    tokens = body.token_ids_logprob
    if isinstance(tokens, list) and tokens and isinstance(tokens[0], list):
        tokens = _each(tokens, row, rows, "token_ids_logprob")
    if tokens is not None and not isinstance(tokens, list):
        raise refuse("token_ids_logprob", f"must be a list of token ids, not {shown(tokens)}")
    interval = values.get("stream_interval")
    return TextRequest(
        input_ids=ids,
        sampling=msgspec.structs.replace(sampling, max_new_tokens=room),
        n=1 if values.get("n") is None else check_integer(values["n"], "n", 1, 128),
        logprobs=logprob_options(
            card,
            output=wanted,
            top=top if wanted else 0,
            prompt_start=start if wanted else -1,
            token_ids=(tokens or ()) if wanted else (),
            name="token_ids_logprob",
        ),
        stream=bool(body.stream),
        stream_interval=None if interval is None else check_integer(interval, "stream_interval", 1, 4096),
        grammar=constraint(
            card,
            regex=values.get("regex"),
            ebnf=values.get("ebnf"),
            json_schema=values.get("json_schema"),
            structural_tag=values.get("structural_tag"),
        ),
        logit_processor=logit_processor(_each(body.custom_logit_processor, row, rows, "custom_logit_processor"), card),
        priority=body.priority or 0,
        cache_salt=body.cache_salt or body.extra_key or "",
    )


def _each(value: Any, row: int, rows: int, name: str) -> Any:
    """The value of one prompt, where a field may be one value or one for each prompt."""
    if not isinstance(value, list):
        return value
    if len(value) != rows:
        raise refuse(name, f"has {len(value)} entries for {rows} prompts")
    return value[row]


def _rids(rid: str | list[str] | None, rows: int) -> list[str]:
    if isinstance(rid, list):
        if len(rid) != rows:
            raise refuse("rid", f"has {len(rid)} entries for {rows} prompts")
        if len(set(rid)) != rows:
            raise refuse("rid", "holds the same id twice")
        return list(rid)
    return [rid] * rows if rid else [uuid.uuid4().hex for _ in range(rows)]


def plain(job: Generation, answers: list[Answer]) -> Any:
    """The whole answer: an object, or a list where several were asked for."""
    out = [shape(job, answer, answer.token_ids, answer.text) for answer in answers]
    return out if job.several else out[0]


def shape(job: Generation, answer: Answer, token_ids: list[int], text: str) -> dict[str, Any]:
    """One answer, or what there is of it."""
    return {
        "text": text,
        "output_ids": token_ids,
        "meta_info": meta_info(answer, job.of(answer.index), job.service, time.monotonic() - job.begun, job.texts),
    }


class GenerateStream:
    """Writes the SSE form: each event holds all there is so far, or with ``incremental`` what is new."""

    def __init__(self, job: Generation) -> None:
        self._job = job
        count = sum(request.n for request in job.requests)
        self._answers = [Answer(index) for index in range(count)]

    def write(self, batch: list[Event]) -> bytes:
        return b"".join([event(update) for update in self.updates(batch)])

    def updates(self, batch: list[Event]) -> list[dict[str, Any]]:
        """One answer as it stands for each choice that the events concern."""
        touched: dict[int, tuple[int, int]] = {}
        for entry in batch:
            if isinstance(entry, Started | Piece):
                answer = self._answers[entry.choice]
                if isinstance(entry, Piece):
                    touched.setdefault(entry.choice, (len(answer.text), len(answer.token_ids)))
                answer.add(entry)
        return [self._update(index, *before) for index, before in touched.items()]

    def _update(self, index: int, text_before: int, tokens_before: int) -> dict[str, Any]:
        answer = self._answers[index]
        text, ids = answer.text, answer.token_ids
        if self._job.incremental:
            text, ids = text[text_before:], ids[tokens_before:]
        out = shape(self._job, answer, ids, text)
        if self._job.several:
            out["index"] = index
        return out

    def end(self) -> bytes:
        return DONE

    def error(self, error: RequestError) -> bytes:
        return error_event(error)
