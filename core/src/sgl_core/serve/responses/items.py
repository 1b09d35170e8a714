"""Input items of the Responses API: checked, given ids, and turned into the messages that a chat template reads."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from sgl_core.serve.core.errors import RequestError, refuse
from sgl_core.serve.core.validate import shown

ROLES = frozenset({"user", "assistant", "system", "developer"})
_TEXT_PARTS = frozenset({"input_text", "output_text", "text", "summary_text", "reasoning_text"})
_PREFIXES = {"message": "msg", "function_call": "fc", "function_call_output": "fco", "reasoning": "rs"}


def input_items(value: Any) -> list[dict[str, Any]]:
    """The items of ``input``, a text or a list. Raises RequestError naming the one that is wrong."""
    if isinstance(value, str):
        if not value.strip():
            raise refuse("input", "the prompt is empty or only white space")
        value = [{"type": "message", "role": "user", "content": value}]
    if value is None:
        raise RequestError("input: is required", param="input", code="missing_required_parameter")
    if not isinstance(value, list):
        raise refuse("input", f"must be a text or a list of items, not {shown(value)}")
    if not value:
        raise refuse("input", "is empty")
    return [_item(entry, f"input[{at}]") for at, entry in enumerate(value)]


def _item(entry: Any, where: str) -> dict[str, Any]:
    if not isinstance(entry, Mapping):
        raise _wrong(where, f"must be an object, not {shown(entry)}")
    kind = entry.get("type") or "message"
    if not isinstance(kind, str) or kind not in _PREFIXES:
        raise RequestError(
            f"{where}.type: items of type {shown(kind)} are not served; use message, function_call, "
            "function_call_output or reasoning",
            param="input",
            code="unsupported_parameter",
        )
    item = {**entry, "type": kind, "id": entry.get("id") or f"{_PREFIXES[kind]}_{uuid.uuid4().hex}"}
    if kind == "message":
        if not isinstance(item.get("role"), str) or item["role"] not in ROLES:
            raise _wrong(
                f"{where}.role", f"must be user, assistant, system or developer, not {shown(item.get('role'))}"
            )
        item["content"] = _parts(item.get("content"), item["role"], f"{where}.content")
    elif kind == "function_call":
        for name in ("call_id", "name", "arguments"):
            if not isinstance(item.get(name), str) or (name != "arguments" and not item[name]):
                raise _wrong(f"{where}.{name}", "must be a text")
    elif kind == "function_call_output":
        if not isinstance(item.get("call_id"), str) or not item["call_id"]:
            raise _wrong(f"{where}.call_id", "must be a text")
        if not isinstance(item.get("output"), str):
            item["output"] = _parts(item.get("output"), "tool", f"{where}.output")
    return item


def _parts(content: Any, role: str, where: str) -> list[dict[str, Any]]:
    """Content as parts of text."""
    kind = "output_text" if role == "assistant" else "input_text"
    if isinstance(content, str):
        if role == "user" and not content.strip():
            raise _wrong(where, "the text is empty or only white space")
        return [{"type": kind, "text": content}]
    if not isinstance(content, list) or not content:
        raise _wrong(where, f"must be a text or a list of parts, not {shown(content)}")
    return [_part(part, kind, f"{where}[{at}]") for at, part in enumerate(content)]


def _part(part: Any, kind: str, where: str) -> dict[str, Any]:
    found = part.get("type") if isinstance(part, Mapping) else None
    if found == "refusal" and isinstance(part.get("refusal"), str):
        return {"type": "refusal", "refusal": part["refusal"]}
    if not isinstance(found, str) or found not in _TEXT_PARTS:
        raise RequestError(
            f"{where}: this model reads text only, not {shown(found)}", param="input", code="unsupported_content"
        )
    if not isinstance(part.get("text"), str):
        raise _wrong(f"{where}.text", "must be a text")
    return {**part, "type": kind}


def _wrong(where: str, because: str) -> RequestError:
    return RequestError(f"{where}: {because}", param="input", code="invalid_value")


def messages_of(items: Sequence[Mapping[str, Any]], instructions: str | None) -> list[dict[str, Any]]:
    """Chat messages. What the assistant thought, said and called in a row becomes one message."""
    messages: list[dict[str, Any]] = []
    if instructions:
        messages.append({"role": "system", "content": instructions})
    for item in items:
        kind = item["type"]
        if kind == "function_call_output":
            messages.append({"role": "tool", "tool_call_id": item["call_id"], "content": _text(item["output"])})
        elif kind == "message" and item["role"] != "assistant":
            messages.append({"role": item["role"], "content": _text(item["content"])})
        else:
            _assistant(messages, kind, item)
    return messages


def _assistant(messages: list[dict[str, Any]], kind: str, item: Mapping[str, Any]) -> None:
    last = messages[-1] if messages and messages[-1]["role"] == "assistant" else None
    fits = last is not None and (
        kind == "function_call" or ("tool_calls" not in last and not last["content"] and kind == "message")
    )
    if not fits:
        last = {"role": "assistant", "content": ""}
        messages.append(last)
    assert last is not None
    if kind == "message":
        last["content"] = _text(item["content"])
    elif kind == "reasoning":
        last["reasoning_content"] = _text(item.get("content") or item.get("summary") or [])
    else:
        function = {"name": item["name"], "arguments": item["arguments"]}
        last.setdefault("tool_calls", []).append({"id": item["call_id"], "type": "function", "function": function})


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(part.get("text") or part.get("refusal") or "" for part in parts if isinstance(part, Mapping))
