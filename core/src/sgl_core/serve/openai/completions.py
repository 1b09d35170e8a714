"""/v1/completions: from its body to requests of the core, and from answers and events to its two forms of answer."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sgl_core.serve.core.answer import Answer, Usage
from sgl_core.serve.core.constraint import constraint
from sgl_core.serve.core.errors import RequestError, refuse, refuse_unserved
from sgl_core.serve.core.events import Event, Finished, Started, TextPiece, TokenLogprob
from sgl_core.serve.core.logit_processor import logit_processor
from sgl_core.serve.core.prompts import Prompt, prompt_list
from sgl_core.serve.core.request import TextRequest
from sgl_core.serve.core.service import Service
from sgl_core.serve.core.validate import fit_context, logprob_options, sampling_params
from sgl_core.serve.http.sse import DONE, error_event, event

from .completion_protocol import CompletionRequest
from .fields import NAMES, UNSERVED, check_adapter, total_choices, usage_object
from .logprobs import completion_logprobs

MAX_LOGPROBS = 5
DEFAULT_MAX_TOKENS = 16


@dataclass(slots=True, kw_only=True)
class Completion:
    """One call, translated. ``n`` choices of ``best_of`` are given back for each prompt; ``echoes`` is empty or one text a prompt."""

    service: Service
    requests: list[TextRequest]
    n: int
    best_of: int
    logprobs: int | None
    echoes: list[str]
    usage_last: bool
    usage_always: bool
    token_ids: bool
    created: int = field(default_factory=lambda: int(time.time()))

    def frame(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        """The envelope of an answer or a chunk."""
        return {
            "id": self.requests[0].rid,
            "object": "text_completion",
            "created": self.created,
            "model": self.service.card.name,
            "choices": choices,
        }

    def echo(self, choice: int) -> str:
        """The prompt text that choice number ``choice`` begins with."""
        return self.echoes[choice // self.best_of] if self.echoes else ""

    def shape(self, entries: Sequence[TokenLogprob], shift: int) -> dict[str, Any] | None:
        """Log-probabilities, or None where they were not asked for."""
        if self.logprobs is None:
            return None
        return completion_logprobs(entries, self.logprobs, self.service.detokenizers, shift)


async def translate(body: CompletionRequest, service: Service) -> Completion:
    """Check everything and tokenize. Raises RequestError."""
    refuse_unserved(body.extras(), UNSERVED["completions"])
    card = service.card
    check_adapter(body.model, card)
    n = body.choices()
    best_of = n if body.best_of is None else body.best_of
    if not n <= best_of <= 128:
        raise refuse("best_of", f"must be at least n ({n}) and at most 128, not {best_of}")
    if best_of > n and body.stream:
        raise refuse("best_of", "cannot be more than n in a stream: the best is known at the end only")
    if body.logprobs is not None and not 0 <= body.logprobs <= MAX_LOGPROBS:
        raise refuse("logprobs", f"must be at least 0 and at most {MAX_LOGPROBS}, not {body.logprobs}")
    usage_last, usage_always = body.usage_wanted(card.include_usage)
    source = "prompt" if body.prompt is not None or body.text is None else "text"
    prompts, _ = prompt_list(getattr(body, source), source, card)
    names = {**NAMES, "max_new_tokens": body.limit_name}
    sampling = sampling_params(body.sampling(), card, names=names, max_new_tokens=DEFAULT_MAX_TOKENS)
    grammar = constraint(
        card,
        response_format=body.response_format,
        regex=body.regex,
        ebnf=body.ebnf,
        json_schema=body.json_schema,
        structural_tag=body.structural_tag,
    )
    processor = logit_processor(body.custom_logit_processor, card)
    echo = bool(body.echo)
    logprobs = logprob_options(
        card,
        output=body.logprobs is not None or best_of > n,
        top=body.logprobs or 0,
        prompt_start=0 if echo and body.logprobs is not None else -1,
    )
    rid = body.rid or f"cmpl-{uuid.uuid4().hex}"
    requests, echoes = [], []
    for prompt in prompts:
        encoded = await _encode(service, prompt, source, body)
        room = fit_context(sampling, len(encoded.ids), card, param=source, limit_param=body.limit_name)
        requests.append(
            TextRequest(
                input_ids=encoded.ids,
                sampling=msgspec.structs.replace(sampling, max_new_tokens=room),
                n=best_of,
                logprobs=logprobs,
                stream=bool(body.stream),
                stream_interval=body.interval(),
                grammar=grammar,
                rid=rid,
                logit_processor=processor,
                priority=body.priority or 0,
                cache_salt=body.salt,
            )
        )
        if echo:
            echoes.append(encoded.text if encoded.text is not None else service.detokenizers.text(encoded.ids))
    total_choices(requests)
    return Completion(
        service=service,
        requests=requests,
        n=n,
        best_of=best_of,
        logprobs=body.logprobs,
        echoes=echoes,
        usage_last=usage_last,
        usage_always=usage_always,
        token_ids=bool(body.return_token_ids),
    )


async def _encode(service: Service, prompt: str | list[int], source: str, body: CompletionRequest) -> Prompt:
    if isinstance(prompt, str) and body.add_special_tokens is False:
        ids = await service.encoder.encode(prompt, add_special=False)
        if not ids:
            raise refuse(source, "has no tokens")
        return Prompt(ids, prompt)
    return await service.encoder.prompt(prompt, source)


def plain(job: Completion, answers: list[Answer]) -> dict[str, Any]:
    """The whole answer."""
    ends = [answer.end for answer in answers]
    choices: list[dict[str, Any]] = []
    for start in range(0, len(answers), job.best_of):
        group = answers[start : start + job.best_of]
        if job.best_of > job.n:
            group = sorted(group, key=lambda answer: answer.mean_logprob, reverse=True)[: job.n]
        choices.extend(_choice(job, answer, len(choices) + at) for at, answer in enumerate(group))
    return {**job.frame(choices), "usage": usage_object(Usage.of(ends, job.best_of))}


def _choice(job: Completion, answer: Answer, index: int) -> dict[str, Any]:
    end, echo = answer.end, job.echo(answer.index)
    logprobs = job.shape(answer.logprobs, len(echo))
    if logprobs is not None and answer.prompt_logprobs is not None:
        logprobs = _joined(job.shape(answer.prompt_logprobs, 0), logprobs)
    choice = {
        "index": index,
        "text": echo + answer.text,
        "logprobs": logprobs,
        "finish_reason": end.reason,
        "matched_stop": end.matched,
    }
    if job.token_ids:
        choice["token_ids"] = answer.token_ids
    return choice


def _joined(first: dict[str, Any] | None, second: dict[str, Any]) -> dict[str, Any]:
    return second if first is None else {key: first[key] + second[key] for key in second}


class CompletionStream:
    """Writes the SSE form; see sgl_core.serve.http.sse.StreamWriter."""

    def __init__(self, job: Completion) -> None:
        self._job = job
        self._ends: list[Finished] = []
        self._prompts: dict[int, int] = {}
        self._counts: dict[int, int] = {}
        head = msgspec.json.encode(job.frame([]))
        self._head = b"data: " + head[: -len(b"]}")] + b'{"index":'
        self._tail = b"}]," + b'"usage":null}\n\n' if job.usage_last else b"}]}\n\n"
        self._simple = job.logprobs is None and not job.usage_always and not job.token_ids

    def write(self, batch: list[Event]) -> bytes:
        return b"".join([self._event(entry) for entry in batch])

    def _event(self, entry: Event) -> bytes:
        if isinstance(entry, TextPiece):
            if self._simple:
                return b"%b%d%b%b%b%b" % (
                    self._head,
                    entry.choice,
                    b',"text":',
                    msgspec.json.encode(entry.text),
                    b',"logprobs":null,"finish_reason":null',
                    self._tail,
                )
            return self._chunk(entry, entry.text)
        if isinstance(entry, Started):
            return self._started(entry)
        if isinstance(entry, Finished):
            self._ends.append(entry)
            return self._chunk(entry, "", entry)
        raise RequestError("a parsed answer has no form on /v1/completions", status=500)

    def _started(self, entry: Started) -> bytes:
        job, index = self._job, entry.choice
        self._prompts[index] = entry.prompt_tokens
        self._counts[index] = 0
        echo = job.echo(index)
        if not echo:
            return b""
        logprobs = job.shape(entry.prompt_logprobs, 0) if entry.prompt_logprobs is not None else None
        return self._emit({"index": index, "text": echo, "logprobs": logprobs, "finish_reason": None}, index)

    def _chunk(self, entry: TextPiece | Finished, text: str, end: Finished | None = None) -> bytes:
        job = self._job
        self._counts[entry.choice] = self._counts.get(entry.choice, 0) + len(entry.token_ids)
        logprobs = job.shape(entry.logprobs, len(job.echo(entry.choice))) if entry.logprobs else None
        choice: dict[str, Any] = {"index": entry.choice, "text": text, "logprobs": logprobs}
        choice["finish_reason"] = None if end is None else end.reason
        if end is not None:
            choice["matched_stop"] = end.matched
        if job.token_ids:
            choice["token_ids"] = entry.token_ids
        return self._emit(choice, entry.choice)

    def _emit(self, choice: dict[str, Any], index: int) -> bytes:
        chunk = self._job.frame([choice])
        if self._job.usage_always:
            chunk["usage"] = usage_object(Usage(self._prompts.get(index, 0), self._counts.get(index, 0), 0))
        elif self._job.usage_last:
            chunk["usage"] = None
        return event(chunk)

    def end(self) -> bytes:
        if not self._job.usage_last:
            return DONE
        ends = sorted(self._ends, key=lambda end: end.choice)
        return event({**self._job.frame([]), "usage": usage_object(Usage.of(ends, self._job.best_of))}) + DONE

    def error(self, error: RequestError) -> bytes:
        return error_event(error)
