"""The table of all routes. A test holds it to the application's own."""

from __future__ import annotations

from sgl_core.serve.anthropic import protocol as anthropic
from sgl_core.serve.batches.routes import BatchBody
from sgl_core.serve.embedding.classify import UNSERVED as NATIVE_UNSERVED
from sgl_core.serve.embedding.classify import NativeBody
from sgl_core.serve.embedding.rerank import RerankRequest
from sgl_core.serve.embedding.score import ScoreRequest
from sgl_core.serve.http.routes import unserved
from sgl_core.serve.http.routes.tokens import DetokenizeRequest, TokenizeRequest
from sgl_core.serve.native import control_routes as control
from sgl_core.serve.native.parse_routes import ParseCallsBody, SeparateBody
from sgl_core.serve.native.protocol import UNSERVED as GENERATE_UNSERVED
from sgl_core.serve.native.protocol import GenerateRequest
from sgl_core.serve.native.sessions import CloseBody, OpenBody
from sgl_core.serve.ollama import protocol as ollama
from sgl_core.serve.openai.chat_protocol import ChatRequest
from sgl_core.serve.openai.completion_protocol import CompletionRequest
from sgl_core.serve.openai.embeddings import EmbeddingRequest
from sgl_core.serve.openai.fields import UNSERVED
from sgl_core.serve.responses import protocol as responses
from sgl_core.serve.unserved_fields import VECTORS

from . import ignored
from .entry import RouteEntry

E = RouteEntry
SSE = ("application/json", "text/event-stream")
LINES = ("application/x-ndjson", "application/json")
OPENAI, ANTHROPIC, OLLAMA = "OpenAI", "Anthropic", "Ollama"
RANKING, NATIVE, ADMIN, ABOUT = "Ranking and classes", "Native", "Administration", "Health and models"
GET, ANY = ("GET",), ("GET", "POST")
PAGES = ("limit", "after", "order")

_OPENAI = (
    E(path="/v1/chat/completions", family=OPENAI, summary="A chat answer.", model=ChatRequest, answers=SSE, refused=UNSERVED["chat"], ignored=ignored.CHAT),
    E(path="/invocations", family=OPENAI, summary="A chat answer, for SageMaker.", model=ChatRequest, answers=SSE, refused=UNSERVED["chat"], ignored=ignored.CHAT),
    E(path="/v1/completions", family=OPENAI, summary="The continuation of a text.", model=CompletionRequest, answers=SSE, refused=UNSERVED["completions"], ignored=ignored.COMPLETIONS),
    E(path="/v1/embeddings", family=OPENAI, summary="Vectors of texts or token ids.", model=EmbeddingRequest, ignored=ignored.EMBEDDINGS, refused=VECTORS),
    E(path="/v1/responses", family=OPENAI, summary="A response, stored unless store is false.", model=responses.ResponseRequest, answers=SSE, refused=responses.UNSERVED, ignored=ignored.RESPONSES),
    E(path="/v1/responses/input_tokens", family=OPENAI, summary="How many tokens the prompt of a response has.", model=responses.ResponseRequest, refused=responses.UNSERVED, ignored={**ignored.RESPONSES, "personality": "no open model knows it"}),
    E(path="/v1/responses/{response_id}", methods=GET, family=OPENAI, summary="A stored response, or the events of a background one.", answers=SSE, query=("stream", "starting_after")),
    E(path="/v1/responses/{response_id}", methods=("DELETE",), family=OPENAI, summary="Forget a response."),
    E(path="/v1/responses/{response_id}/cancel", family=OPENAI, summary="End a response that still runs."),
    E(path="/v1/responses/{response_id}/input_items", methods=GET, family=OPENAI, summary="The input items of a response.", query=PAGES),
    E(path="/v1/files", family=OPENAI, summary="Upload a file.", form=True),
    E(path="/v1/files", methods=GET, family=OPENAI, summary="The files.", query=(*PAGES, "purpose")),
    E(path="/v1/files/{file_id}", methods=GET, family=OPENAI, summary="One file object."),
    E(path="/v1/files/{file_id}", methods=("DELETE",), family=OPENAI, summary="Delete a file."),
    E(path="/v1/files/{file_id}/content", methods=GET, family=OPENAI, summary="The content of a file.", answers=("application/octet-stream",)),
    E(path="/v1/batches", family=OPENAI, summary="Serve a file of requests, behind everybody else.", model=BatchBody),
    E(path="/v1/batches", methods=GET, family=OPENAI, summary="The batches.", query=PAGES),
    E(path="/v1/batches/{batch_id}", methods=GET, family=OPENAI, summary="One batch object."),
    E(path="/v1/batches/{batch_id}/cancel", family=OPENAI, summary="End a batch; its results so far are kept."),
    *(E(path=path, family=OPENAI, summary="Not served.", why=why) for path, why in unserved.OPENAI.items()),
    E(path="/v1/models", methods=GET, family=OPENAI, summary="The served models."),
    E(path="/v1/models/{name:path}", methods=GET, family=OPENAI, summary="One model."),
)  # fmt: skip

_ANTHROPIC = (
    E(path="/v1/messages", family=ANTHROPIC, summary="A message.", model=anthropic.MessagesRequest, answers=SSE, refused=anthropic.UNSERVED, ignored=ignored.MESSAGES),
    E(path="/v1/messages/count_tokens", family=ANTHROPIC, summary="How many tokens a prompt has.", model=anthropic.CountTokensRequest, refused=anthropic.UNSERVED, ignored=ignored.COUNT_TOKENS),
)  # fmt: skip

_PULLED = "the operator chooses the model when the server starts"
_GENERATE_REFUSED = {
    "images": "this model reads text only",
    "suffix": "text is only written after a prompt",
    "template": "the operator sets the template (--chat-template)",
    "context": "send the conversation to /api/chat",
}
_OLLAMA = (
    E(path="/api/chat", family=OLLAMA, summary="A chat answer; streamed unless stream is false.", model=ollama.ChatBody, answers=LINES, ignored=ignored.OLLAMA, body_optional=True),
    E(path="/api/generate", family=OLLAMA, summary="An answer to a prompt; without a prompt, loads the model.", model=ollama.GenerateBody, answers=LINES, ignored=ignored.OLLAMA_GENERATE, refused=_GENERATE_REFUSED, body_optional=True),
    E(path="/api/embed", family=OLLAMA, summary="Vectors of texts.", model=ollama.EmbedBody, ignored=ignored.OLLAMA_EMBED),
    E(path="/api/embeddings", family=OLLAMA, summary="The vector of a text (older form).", model=ollama.EmbedBody, ignored=ignored.OLLAMA_EMBED),
    E(path="/api/tags", methods=GET, family=OLLAMA, summary="The served models."),
    E(path="/api/ps", methods=GET, family=OLLAMA, summary="The loaded models."),
    E(path="/api/show", family=OLLAMA, summary="What the model is.", model=ollama.ShowBody, ignored={"verbose": "all is shown"}),
    E(path="/api/version", methods=GET, family=OLLAMA, summary="The server's version."),
    *(E(path=f"/api/{name}", family=OLLAMA, summary="Manage models.", why=_PULLED) for name in ("pull", "push", "create", "copy")),
    E(path="/api/delete", methods=("DELETE",), family=OLLAMA, summary="Manage models.", why=_PULLED),
)  # fmt: skip

_RERANK = dict.fromkeys(("rank_fields", "max_tokens_per_doc", "max_chunks_per_doc"), "documents are read whole")
_RANKING = (
    *(E(path=path, family=RANKING, summary="The probability of labels after texts, or the nearness of pairs of texts.", model=ScoreRequest, ignored=ignored.FAMILY, refused=VECTORS) for path in ("/v1/score", "/score")),
    *(E(path=path, family=RANKING, summary="Documents by their nearness to a query.", model=RerankRequest, ignored=ignored.FAMILY, refused=_RERANK) for path in ("/v1/rerank", "/v2/rerank", "/rerank")),
    *(E(path=path, family=RANKING, summary="Classes of texts, where the model has a classification head.", model=NativeBody, ignored=ignored.NATIVE_VECTORS, refused=NATIVE_UNSERVED) for path in ("/classify", "/v1/classify")),
    E(path="/encode", methods=("POST", "PUT"), family=RANKING, summary="Vectors in the native form.", model=NativeBody, ignored=ignored.NATIVE_VECTORS, refused=NATIVE_UNSERVED),
)  # fmt: skip

_NATIVE = (
    E(path="/generate", methods=("POST", "PUT"), family=NATIVE, summary="The native route: texts or token ids, batches, log-probabilities, sessions.", model=GenerateRequest, answers=SSE, refused=GENERATE_UNSERVED, ignored=ignored.GENERATE),
    *(E(path=path, family=NATIVE, summary="The token ids of a prompt or of messages.", model=TokenizeRequest, ignored={"model": "one model is served"}) for path in ("/tokenize", "/v1/tokenize")),
    *(E(path=path, family=NATIVE, summary="The text of token ids.", model=DetokenizeRequest, ignored={"model": "one model is served"}) for path in ("/detokenize", "/v1/detokenize")),
    *(E(path=path, family=NATIVE, summary="Tool calls in a text.", model=ParseCallsBody, ignored={"rid": "nothing is generated"}) for path in ("/parse_function_call", "/v1/parse_function_call")),
    *(E(path=path, family=NATIVE, summary="The thinking in a text, apart from the answer.", model=SeparateBody, ignored={"rid": "nothing is generated", "return_blocks": "thinking is one text"}) for path in ("/separate_reasoning", "/v1/separate_reasoning")),
    E(path="/open_session", methods=ANY, family=NATIVE, summary="Open a session.", model=OpenBody),
    E(path="/close_session", methods=ANY, family=NATIVE, summary="Close a session.", model=CloseBody),
)  # fmt: skip

_ADMIN = (
    E(path="/abort_request", family=ADMIN, summary="End one request by its id, or all."),
    E(path="/flush_cache", methods=ANY, family=ADMIN, summary="Empty the prefix cache.", answers=("text/plain",)),
    E(path="/pause_generation", family=ADMIN, summary="Start no more steps.", model=control.PauseBody, body_optional=True),
    E(path="/continue_generation", family=ADMIN, summary="Go on after a pause."),
    E(path="/start_profile", methods=ANY, family=ADMIN, summary="Start the worker's profiler.", model=control.ProfileBody, body_optional=True),
    E(path="/stop_profile", methods=ANY, family=ADMIN, summary="Stop the worker's profiler."),
    E(path="/update_weights_from_disk", family=ADMIN, summary="New weights of the same architecture.", model=control.UpdateWeightsBody),
    E(path="/update_weight_version", family=ADMIN, summary="Another label for the weights.", model=control.VersionBody),
    E(path="/get_weights_by_name", methods=ANY, family=ADMIN, summary="The first rows of a weight.", model=control.GetWeightsBody),
    E(path="/release_memory_occupation", methods=ANY, family=ADMIN, summary="Give the device's memory back.", model=control.MemoryBody, body_optional=True),
    E(path="/resume_memory_occupation", methods=ANY, family=ADMIN, summary="Take the device's memory again.", model=control.MemoryBody, body_optional=True),
    E(path="/configure_logging", family=ADMIN, summary="Log level and request logs.", model=control.LoggingBody),
    *(E(path=path, family=ADMIN, summary=f"{path.rpartition('/')[2].capitalize()} one of several models.", why=why) for path, why in unserved.MODELS.items()),
    *(E(path=path, family=ADMIN, summary="Not served.", why=why, methods=unserved.METHODS.get(path, ("POST",))) for path, why in unserved.REFERENCE.items()),
)  # fmt: skip

_ABOUT = (
    E(path="/", methods=GET, family=ABOUT, summary="Name and version."),
    E(path="/health", methods=GET, family=ABOUT, summary="200 when requests are served, 503 with the reason otherwise.", answers=()),
    E(path="/health_generate", methods=GET, family=ABOUT, summary="The same, proven by generating a token.", answers=()),
    *(E(path=path, methods=GET, family=ABOUT, summary="Requests and tokens in the engine.") for path in ("/get_load", "/v1/loads")),
    E(path="/metrics", methods=GET, family=ABOUT, summary="Prometheus metrics.", answers=("text/plain",)),
    *(E(path=path, methods=GET, family=ABOUT, summary="What the model is.") for path in ("/model_info", "/get_model_info")),
    *(E(path=path, methods=GET, family=ABOUT, summary="The resolved configuration and why it is so.") for path in ("/server_info", "/get_server_info")),
    *(E(path=path, methods=GET, family=ABOUT, summary="The label of the weights.") for path in ("/get_weight_version", "/weight_version")),
    E(path="/ping", methods=GET, family=ABOUT, summary="The same as /health, for SageMaker.", answers=()),
    E(path="/openapi.json", methods=GET, family=ABOUT, summary="This API as an OpenAPI document."),
    E(path="/docs", methods=GET, family=ABOUT, summary="A page of all routes, where the operator wants it (--docs-page).", answers=("text/html",)),
)  # fmt: skip

ROUTES: tuple[RouteEntry, ...] = (*_OPENAI, *_ANTHROPIC, *_OLLAMA, *_RANKING, *_NATIVE, *_ADMIN, *_ABOUT)
"""Every route, by family."""
