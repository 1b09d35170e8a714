"""langchain-openai against a running server: chat, streams, tools, structured output, the Responses API, completions."""

import asyncio

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
from pydantic import BaseModel, ConfigDict, Field


class Weather(BaseModel):
    """The weather of a city; bounded, because a small model does not end a text by itself."""

    model_config = ConfigDict(extra="forbid")
    city: str = Field(max_length=12)
    sunny: bool


ENOUGH = 400
"""Tokens within which every text of Weather ends."""


def chat(server, most=48, **more):
    options = {"model": server.model, "base_url": f"{server.url}/v1", "api_key": "none", "temperature": 0}
    return ChatOpenAI(**options, max_tokens=most, max_retries=0, **more)


def check_invoke_and_stream(server):
    messages = [SystemMessage("Be brief."), HumanMessage("Name three colours.")]
    plain = chat(server).invoke(messages)
    assert plain.content
    assert plain.usage_metadata["output_tokens"] > 0
    chunks = list(chat(server, stream_usage=True).stream(messages))
    assert "".join(chunk.content for chunk in chunks) == plain.content
    joined = chunks[0]
    for chunk in chunks[1:]:
        joined += chunk
    assert joined.usage_metadata["output_tokens"] == plain.usage_metadata["output_tokens"]


def check_async_batch(server):
    answers = asyncio.run(chat(server).abatch(["Say a number."] * 4))
    assert len({answer.content for answer in answers}) == 1


def check_bound_tools(server):
    bound = chat(server, ENOUGH).bind_tools([Weather], tool_choice="Weather", parallel_tool_calls=False)
    answer = bound.invoke("What is the weather in Oslo?")
    (call,) = answer.tool_calls
    assert call["name"] == "Weather"
    assert set(call["args"]) == {"city", "sunny"}
    history = [HumanMessage("Weather in Oslo?"), answer, ToolMessage("rain", tool_call_id=call["id"])]
    assert isinstance(chat(server).invoke(history), AIMessage)


def check_structured_output(server):
    for method in ("json_schema", "function_calling"):
        found = (
            chat(server, ENOUGH).with_structured_output(Weather, method=method).invoke("The weather in Oslo, please.")
        )
        assert isinstance(found, Weather), method


def check_logprobs(server):
    answer = chat(server, logprobs=True, top_logprobs=2).invoke("Hi")
    assert len(answer.response_metadata["logprobs"]["content"][0]["top_logprobs"]) == 2


def check_responses_api(server):
    plain = chat(server, use_responses_api=True).invoke("Name three colours.")
    assert plain.text
    joined = "".join(part.text for part in chat(server, use_responses_api=True).stream("Name three colours."))
    assert joined == plain.text


def check_completions(server):
    llm = OpenAI(model=server.model, base_url=f"{server.url}/v1", api_key="none", temperature=0, max_tokens=12)
    plain = llm.invoke("The capital of France is")
    assert "".join(llm.stream("The capital of France is")) == plain


def check_embeddings(server):
    options = {"model": server.model, "base_url": f"{server.url}/v1", "api_key": "none"}
    embed = OpenAIEmbeddings(**options, check_embedding_ctx_length=False)
    first, second = embed.embed_documents(["a cat", "a dog"])
    assert len(first) == len(second) == len(embed.embed_query("a cat"))
    assert first != second
