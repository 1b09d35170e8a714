"""LlamaIndex against a running server: its integrations for OpenAI-like servers and for SGLang."""

import asyncio
import json

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.program import LLMTextCompletionProgram
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from llama_index.llms.sglang import SGLang
from pydantic import BaseModel, ConfigDict, Field

PROMPT = "The capital of France is"


class City(BaseModel):
    """A city; bounded, because a small model does not end a text by itself."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(max_length=12)


ENOUGH = 400
"""Tokens within which every text of City ends."""


def like(server, most=32, **more):
    options = {"model": server.model, "api_base": f"{server.url}/v1", "api_key": "none", "temperature": 0}
    return OpenAILike(**options, max_tokens=most, context_window=8192, max_retries=0, **more)


def native(server, **more):
    return SGLang(model=server.model, api_url=server.url, temperature=0, max_new_tokens=32, **more)


def check_openai_like_chat(server):
    llm, messages = like(server, is_chat_model=True), [ChatMessage(role="user", content="Name three colours.")]
    plain = llm.chat(messages).message.content
    assert plain
    assert "".join(part.delta or "" for part in llm.stream_chat(messages)) == plain
    assert asyncio.run(llm.achat(messages)).message.content == plain


def check_openai_like_completion(server):
    llm = like(server, is_chat_model=False)
    plain = llm.complete(PROMPT).text
    assert plain
    assert [part.text for part in llm.stream_complete(PROMPT)][-1] == plain


def check_openai_like_tools(server):
    def get_weather(name: str) -> str:
        """The weather of a city."""
        return f"rain in {name}"

    llm = like(server, ENOUGH, is_chat_model=True, is_function_calling_model=True)
    answer = llm.chat_with_tools(
        [FunctionTool.from_defaults(get_weather, fn_schema=City)],
        "Weather in Oslo?",
        tool_required=True,
        allow_parallel_tool_calls=False,
    )
    (call,) = llm.get_tool_calls_from_response(answer)
    assert call.tool_name == "get_weather"
    assert set(call.tool_kwargs) == {"name"}


def check_openai_like_structured_program(server):
    llm = like(
        server,
        ENOUGH,
        is_chat_model=True,
        additional_kwargs={"extra_body": {"json_schema": json.dumps(City.model_json_schema())}},
    )
    program = LLMTextCompletionProgram.from_defaults(output_cls=City, llm=llm, prompt_template_str="Name a city.")
    assert isinstance(program(), City)


def check_sglang_completion(server):
    llm = native(server)
    plain = llm.complete(PROMPT).text
    assert plain.startswith(
        SGLang(model="m", api_url=server.url, temperature=0, max_new_tokens=3).complete(PROMPT).text
    )
    parts = list(llm.stream_complete(PROMPT))
    assert parts[-1].text == plain
    assert "".join(part.delta or "" for part in parts) == plain


def check_sglang_chat(server):
    messages = [ChatMessage(role="user", content="Name three colours.")]
    llm = native(server)
    plain = llm.chat(messages).message.content
    assert plain
    assert list(llm.stream_chat(messages))[-1].message.content == plain
    assert asyncio.run(llm.achat(messages)).message.content == plain


def check_sglang_regex(server):
    assert native(server, regex="(yes|no)").complete("Is the sky blue?").text in ("yes", "no")
