"""``sgl chat``: a conversation in the terminal, streamed, with a running server or a model started for it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from sgl_core.config.errors import ConfigError
from sgl_core.config.serve_options import discover, parse_serve_argv
from sgl_core.registry.errors import RegistryError

from .serve import guarded, refused

DEFAULT_URL = "http://127.0.0.1:30000"
HELP = "/exit ends, /clear forgets the conversation, /system TEXT sets the system message, /help shows this; Ctrl-C stops an answer"


class Talker(Protocol):
    """Something that answers a conversation piece by piece."""

    def reply(self, messages: list[dict[str, Any]]) -> Iterator[str]: ...

    def close(self) -> None: ...


def main(argv: Sequence[str]) -> int:
    """Run the command; 0 after /exit or end of input, 1 where nothing answers, 2 for a wrong command line."""
    options, rest = parser().parse_known_args(list(argv))
    if options.url or not rest:
        try:
            return converse(ServerTalker(options.url or DEFAULT_URL, options), options)
        except ServerSilent as error:
            if options.url:
                return refused("sgl chat", error)
            print(f"no server at {DEFAULT_URL}; starting the default model", file=sys.stderr)
    try:
        registries = discover(rest)
        args = parse_serve_argv(rest, registries)
    except ConfigError as error:
        return refused("sgl chat", error, 2)
    except RegistryError as error:
        return refused("sgl chat", error)
    return guarded("sgl chat", lambda: converse(EngineTalker(args, registries, options), options))


def parser() -> argparse.ArgumentParser:
    """The command's own options; all others are those of ``sgl serve`` and start a model."""
    out = argparse.ArgumentParser(
        prog="sgl chat",
        usage="sgl chat [--url URL] [MODEL] [options] [options of sgl serve]",
        description=f"Chat with the server at --url (default: {DEFAULT_URL} if one runs there), or start MODEL. {HELP}.",
        allow_abbrev=False,
    )
    out.add_argument("--url", help="a running server")
    out.add_argument("--key", default="", help="the server's API key")
    out.add_argument("--name", help="the model's name at the server (default: the first it lists)")
    out.add_argument("--system", help="a system message")
    out.add_argument("--max-tokens", type=int)
    out.add_argument("--temperature", type=float)
    out.add_argument("--top-p", type=float)
    return out


def converse(
    talker: Talker,
    options: argparse.Namespace,
    read: Callable[[str], str] = input,
    write: Callable[[str], object] = sys.stdout.write,
) -> int:
    """The conversation until /exit or the end of input."""
    system = options.system
    messages: list[dict[str, Any]] = []
    if sys.stdin.isatty():
        _line_editing()
        write(HELP + "\n")
    try:
        while True:
            try:
                line = read("> ").strip()
            except EOFError:
                write("\n")
                return 0
            if not line:
                continue
            command, _, rest = line.partition(" ")
            if command in ("/exit", "/quit"):
                return 0
            if command == "/clear":
                messages = []
            elif command == "/system":
                system = rest or None
            elif command.startswith("/"):
                write(HELP + "\n")
            else:
                messages.append({"role": "user", "content": line})
                head = [{"role": "system", "content": system}] if system else []
                answer = _say(talker.reply([*head, *messages]), write)
                if answer:
                    messages.append({"role": "assistant", "content": answer})
                else:
                    messages.pop()
    finally:
        talker.close()


def _say(pieces: Iterator[str], write: Callable[[str], object]) -> str:
    """Print an answer as it comes; an interrupt ends it and keeps what there is."""
    from sgl_core.serve.client import HttpError
    from sgl_core.serve.core.errors import RequestError

    answer = ""
    try:
        for piece in pieces:
            answer += piece
            write(piece)
            sys.stdout.flush()
    except KeyboardInterrupt:
        write(" [stopped]")
    except (HttpError, RequestError) as error:
        write(f"\n[{error}]")
    write("\n")
    return answer


def _line_editing() -> None:
    try:
        import readline  # noqa: F401  # importing it gives input() its history
    except ImportError:
        pass


def _sampling(options: argparse.Namespace) -> dict[str, Any]:
    values = {"max_tokens": options.max_tokens, "temperature": options.temperature, "top_p": options.top_p}
    return {name: value for name, value in values.items() if value is not None}


class ServerSilent(Exception):
    """No server answers at the address."""


class ServerTalker:
    """Talks to a server over its OpenAI API."""

    def __init__(self, url: str, options: argparse.Namespace) -> None:
        from sgl_core.serve.background import BackgroundLoop
        from sgl_core.serve.client import Client, HttpError

        self._client = Client(url=url, api_key=options.key)
        self._loop = BackgroundLoop("sgl-chat")
        self._sampling = _sampling(options)
        try:
            models = self._loop.run(self._client.get("/v1/models"))
            self._model = options.name or models["data"][0]["id"]
        except HttpError as error:
            self._loop.close()
            raise ServerSilent(str(error)) from None
        except (KeyError, IndexError, TypeError):
            self._loop.close()
            raise ServerSilent(f"{url} lists no models") from None
        print(f"{self._model} at {url}", file=sys.stderr)

    def reply(self, messages: list[dict[str, Any]]) -> Iterator[str]:
        from sgl_core.serve.client import HttpError

        body = {"model": self._model, "messages": messages, "stream": True, **self._sampling}
        for data in self._loop.iterate(self._client.stream("/v1/chat/completions", body)):
            event = json.loads(data)
            if "error" in event:
                raise HttpError(event["error"]["message"])
            for choice in event["choices"]:
                yield choice["delta"].get("content") or choice["delta"].get("reasoning_content") or ""

    def close(self) -> None:
        self._loop.close()


class EngineTalker:
    """Talks to a model started for it."""

    def __init__(self, args: Any, registries: Any, options: argparse.Namespace) -> None:
        from sgl_core.serve.offline import Engine

        self._engine = Engine.from_args(args, registries)
        self._sampling = _sampling(options)

    def reply(self, messages: list[dict[str, Any]]) -> Iterator[str]:
        return self._engine.chat_stream(messages, **self._sampling)

    def close(self) -> None:
        self._engine.shutdown()
