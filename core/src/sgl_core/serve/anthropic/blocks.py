"""Content blocks of Anthropic's messages, turned into the messages that a chat template reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sgl_core.serve.core.errors import RequestError, refuse
from sgl_core.serve.core.validate import shown


def messages_of(messages: list[dict[str, Any]], system: str | list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """Chat messages. Raises RequestError naming the block that is wrong or not served."""
    out: list[dict[str, Any]] = []
    instructions = _joined(system, "system") if system is not None else ""
    if instructions:
        out.append({"role": "system", "content": instructions})
    if not messages:
        raise refuse("messages", "is empty")
    for row, message in enumerate(messages):
        where = f"messages[{row}]"
        role = message.get("role")
        blocks = _blocks(message.get("content"), f"{where}.content")
        if role == "user":
            out += _user(blocks, where)
        elif role == "assistant":
            out.append(_assistant(blocks, where))
        elif role == "system":
            out.append({"role": "system", "content": _joined(message.get("content"), f"{where}.content")})
        else:
            raise _wrong(f"{where}.role", f"must be user or assistant, not {shown(role)}")
    return out


def _blocks(content: Any, where: str) -> list[Mapping[str, Any]]:
    if isinstance(content, str):
        if not content.strip():
            raise _wrong(where, "the text is empty or only white space")
        return [{"type": "text", "text": content}]
    if not isinstance(content, list) or not content:
        raise _wrong(where, f"must be a text or a list of blocks, not {shown(content)}")
    for at, block in enumerate(content):
        if not isinstance(block, Mapping):
            raise _wrong(f"{where}[{at}]", f"must be an object, not {shown(block)}")
    return content


def _user(blocks: list[Mapping[str, Any]], where: str) -> list[dict[str, Any]]:
    """Tool results become messages of their own; the texts around them stay in order."""
    out: list[dict[str, Any]] = []
    for at, block in enumerate(blocks):
        place = f"{where}.content[{at}]"
        if block.get("type") == "tool_result":
            out.append(_result(block, place))
            continue
        text = _text(block, place)
        if out and out[-1]["role"] == "user":
            out[-1]["content"] += "\n" + text
        else:
            out.append({"role": "user", "content": text})
    return out


def _result(block: Mapping[str, Any], where: str) -> dict[str, Any]:
    if not isinstance(block.get("tool_use_id"), str) or not block["tool_use_id"]:
        raise _wrong(f"{where}.tool_use_id", "must be a text")
    content = block.get("content")
    text = "" if content is None else _joined(content, f"{where}.content")
    if block.get("is_error") is True:
        text = f"Error: {text}" if text else "Error"
    return {"role": "tool", "tool_call_id": block["tool_use_id"], "content": text}


def _assistant(blocks: list[Mapping[str, Any]], where: str) -> dict[str, Any]:
    texts, thoughts, calls = [], [], []
    for at, block in enumerate(blocks):
        place = f"{where}.content[{at}]"
        kind = block.get("type")
        if kind == "thinking":
            if not isinstance(block.get("thinking"), str):
                raise _wrong(f"{place}.thinking", "must be a text")
            thoughts.append(block["thinking"])
        elif kind == "redacted_thinking":
            continue  # another server's secret; no model can read it
        elif kind == "tool_use":
            calls.append(_call(block, place))
        else:
            texts.append(_text(block, place))
    message: dict[str, Any] = {"role": "assistant", "content": "".join(texts)}
    if thoughts:
        message["reasoning_content"] = "".join(thoughts)
    if calls:
        message["tool_calls"] = calls
    return message


def _call(block: Mapping[str, Any], where: str) -> dict[str, Any]:
    for name in ("id", "name"):
        if not isinstance(block.get(name), str) or not block[name]:
            raise _wrong(f"{where}.{name}", "must be a text")
    if not isinstance(block.get("input", {}), Mapping):
        raise _wrong(f"{where}.input", "must be an object")
    arguments = json.dumps(block.get("input") or {}, ensure_ascii=False)
    return {"id": block["id"], "type": "function", "function": {"name": block["name"], "arguments": arguments}}


def _joined(content: Any, where: str) -> str:
    """A text, or the texts of a list of blocks."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise _wrong(where, f"must be a text or a list of text blocks, not {shown(content)}")
    for at, block in enumerate(content):
        if not isinstance(block, Mapping):
            raise _wrong(f"{where}[{at}]", f"must be an object, not {shown(block)}")
    return "\n".join(_text(block, f"{where}[{at}]") for at, block in enumerate(content))


def _text(block: Mapping[str, Any], where: str) -> str:
    kind = block.get("type")
    if kind == "document" and isinstance(source := block.get("source"), Mapping) and source.get("type") == "text":
        data = source.get("data")
        if isinstance(data, str):
            return data
    if kind != "text":
        raise RequestError(
            f"{where}: this model reads text only, not {shown(kind)}", param=where, code="unsupported_content"
        )
    if not isinstance(block.get("text"), str):
        raise _wrong(f"{where}.text", "must be a text")
    text: str = block["text"]
    return text


def _wrong(where: str, because: str) -> RequestError:
    return RequestError(f"{where}: {because}", param=where, code="invalid_value")
