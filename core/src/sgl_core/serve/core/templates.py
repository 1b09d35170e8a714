"""Chat templates: messages, tools and template variables in, the text of a prompt out. What a template dislikes is a 400."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from .errors import RequestError, refuse
from .template_env import TemplateRefused, make_environment, wants_parts
from .tokenizer import TextTokenizer

_MARK = "SGL-CONTINUES-HERE-5f0c7e"
"""Stands for the final message's text while it renders, so that the place where the answer goes on is found."""
_RESERVED = frozenset({"messages", "tools", "documents", "add_generation_prompt", "continue_final_message"})


class TemplateError(ValueError):
    """The template cannot be found or compiled: an operator's mistake, told at start."""


class ChatTemplate:
    """One compiled template. ``tokens`` are special tokens by role (``bos_token`` ...), ``defaults`` variables for every request."""

    def __init__(self, source: str, tokens: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> None:
        self.source = source
        self._tokens = dict(tokens)
        self._defaults = dict(defaults or {})
        environment = make_environment()
        try:
            self._template = environment.from_string(source)
            self.parts = wants_parts(environment, source)
        except jinja2.TemplateSyntaxError as error:
            raise TemplateError(f"chat template, line {error.lineno}: {error.message}") from None

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
    ) -> str:
        """The prompt. ``messages`` keep all their keys; text lists are joined where the template takes content for one text.

        Raises RequestError: bad messages, or the template's own refusal with its words.
        """
        if continue_final_message and add_generation_prompt:
            raise refuse("continue_final_message", "cannot be combined with add_generation_prompt")
        prepared = [self._message(message, f"messages[{row}]") for row, message in enumerate(messages)]
        final = _final_text(messages, prepared) if continue_final_message else ""
        if continue_final_message:
            prepared[-1]["content"] = [{"type": "text", "text": _MARK}] if self.parts else _MARK
        given = dict(variables or {})
        clash = sorted(_RESERVED & set(given))
        if clash:
            raise refuse("chat_template_kwargs", f"{clash[0]} has a field of its own")
        context: dict[str, Any] = {
            **self._tokens,
            **self._defaults,
            **given,
            "messages": prepared,
            "tools": list(tools) if tools else None,
            "documents": list(documents) if documents else None,
            "add_generation_prompt": add_generation_prompt,
        }
        text = self._run(context)
        return _cut(text, final) if continue_final_message else text

    def _run(self, context: dict[str, Any]) -> str:
        try:
            try:
                return self._template.render(context)
            except TypeError:
                # Some templates join the arguments of a call to text, though most expect an object.
                context["messages"] = [_with_text_arguments(message) for message in context["messages"]]
                return self._template.render(context)
        except TemplateRefused as error:
            why, code = f"the model's chat template refuses them: {error}", "template_refused"
        except Exception as error:
            why, code = f"the model's chat template cannot render them: {error}", "template_failed"
        raise RequestError(f"messages: {why}", param="messages", code=code)

    def _message(self, message: Mapping[str, Any], where: str) -> dict[str, Any]:
        out = dict(message)
        out["content"] = self._content(message.get("content"), f"{where}.content")
        if out.get("tool_calls"):
            out["tool_calls"] = [_with_object_arguments(call) for call in out["tool_calls"]]
        elif "tool_calls" in out:
            del out["tool_calls"]  # null or []: templates only ask whether the key is there
        return out

    def _content(self, content: Any, where: str) -> Any:
        if content is None:
            return ""
        if isinstance(content, str):
            return content
        texts = [_part_text(part, f"{where}[{at}]") for at, part in enumerate(content)]
        return [{"type": "text", "text": text} for text in texts] if self.parts else "\n".join(texts)


def _part_text(part: Any, where: str) -> str:
    if isinstance(part, str):
        return part
    kind = part.get("type", "text") if isinstance(part, Mapping) else None
    if kind in ("text", "input_text", "output_text", "refusal"):
        text = part.get("refusal" if kind == "refusal" else "text")
        if isinstance(text, str):
            return text
        raise RequestError(f"{where}.text must be a text", param="messages", code="invalid_value")
    raise RequestError(
        f"{where}: this model reads text only, not {kind!r}", param="messages", code="unsupported_content"
    )


def _final_text(messages: Sequence[Mapping[str, Any]], prepared: Sequence[Mapping[str, Any]]) -> str:
    if messages[-1].get("role") != "assistant":
        raise refuse("continue_final_message", "the last message is not the assistant's")
    content = prepared[-1]["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def _cut(text: str, final: str) -> str:
    at = text.rfind(_MARK)
    if at < 0:
        raise refuse("continue_final_message", "the model's chat template does not write the last message's text")
    return text[:at] + final


def _with_object_arguments(call: Any) -> Any:
    """The call with its arguments as an object, which most templates expect; clients send them as JSON text."""
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("arguments"), str):
        return call
    try:
        arguments = json.loads(function["arguments"] or "{}")
    except (ValueError, RecursionError):
        return call
    return {**call, "function": {**function, "arguments": arguments}} if isinstance(arguments, dict) else call


def _with_text_arguments(message: Mapping[str, Any]) -> dict[str, Any]:
    calls = message.get("tool_calls")
    if not calls:
        return dict(message)
    return {**message, "tool_calls": [_call_with_text(call) for call in calls]}


def _call_with_text(call: Any) -> Any:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("arguments"), dict):
        return call
    text = json.dumps(function["arguments"], ensure_ascii=False)
    return {**call, "function": {**function, "arguments": text}}


def choose_template(tokenizer: TextTokenizer, given: str | None, name: str | None) -> str | None:
    """The template's source: a file or jinja text the operator gave, one of the tokenizer's by ``name``, or its default.

    None where the model has none. Raises TemplateError naming what was asked for.
    """
    if given:
        if "{%" in given or "{{" in given:
            return given
        path = Path(given).expanduser()
        if not path.is_file():
            raise TemplateError(f"--chat-template {given}: no such file (give a file or jinja text)")
        return path.read_text(encoding="utf-8")
    templates = tokenizer.chat_templates
    if name:
        if name not in templates:
            have = ", ".join(sorted(templates)) or "none"
            raise TemplateError(f"--hf-chat-template-name {name}: the model has no such template (it has: {have})")
        return templates[name]
    if "default" in templates or len(templates) != 1:
        return templates.get("default")
    return next(iter(templates.values()))
