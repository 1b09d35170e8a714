"""What all routes share: keys, CORS (cases 196, 197), body limit, request ids, unknown routes, and the small routes."""

from __future__ import annotations

import json

import pytest

from sgl_core.serve.http.settings import HttpSettings

pytestmark = pytest.mark.anyio

CHAT = {"messages": [{"role": "user", "content": "hi"}]}
KEYED = HttpSettings(api_keys=("one", "two"), admin_key="boss")


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


async def test_every_route_but_health_asks_for_a_key(serve) -> None:
    async with serve(settings=KEYED) as api:
        for path in ("/health", "/health_generate"):
            assert (await api.client.get(path)).status_code == 200
        for route in api.app.routes:
            if route.path in ("/health", "/health_generate", "/ping"):
                continue
            method = "POST" if "POST" in route.methods else "GET"
            response = await api.client.request(method, route.path.replace("{name:path}", "tiny"))
            assert response.status_code == 401, route.path
            if not route.path.startswith("/api/"):  # Ollama's errors are a text only
                assert response.json()["error"]["type"] == "authentication_error"
        for key in ("one", "two", "boss"):
            assert (await api.client.get("/v1/models", headers=bearer(key))).status_code == 200
        assert (await api.client.get("/v1/models", headers={"x-api-key": "one"})).status_code == 200
        for headers in (bearer("three"), bearer(""), {"authorization": "Basic one"}, bearer("ü")):
            encoded = {name: value.encode() for name, value in headers.items()}
            assert (await api.client.get("/v1/models", headers=encoded)).status_code == 401


async def test_the_administrators_routes(serve) -> None:
    async with serve(settings=KEYED) as api:
        assert (await api.client.get("/flush_cache", headers=bearer("one"))).status_code == 401
        assert (await api.client.get("/flush_cache", headers=bearer("boss"))).status_code == 200
    async with serve(settings=HttpSettings(admin_key="boss")) as api:
        assert (await api.client.get("/v1/models")).status_code == 200
        assert (await api.client.get("/server_info")).status_code == 401


@pytest.mark.field_case("196")
async def test_case_196_preflight_without_a_key_and_headers_on_real_answers(serve) -> None:
    origin = {"origin": "https://app.example"}
    ask = {**origin, "access-control-request-method": "POST", "access-control-request-headers": "authorization"}
    async with serve(settings=HttpSettings(api_keys=("one",))) as api:
        response = await api.client.options("/v1/models", headers=ask)
        assert response.status_code == 204
        assert response.headers["access-control-allow-origin"] == "*"
        assert "authorization" in response.headers["access-control-allow-headers"]
        assert "access-control-allow-credentials" not in response.headers
        response = await api.client.get("/v1/models", headers={**origin, **bearer("one")})
        assert response.headers["access-control-allow-origin"] == "*"
        response = await api.post("/v1/chat/completions", {**CHAT, "stream": True}, headers={**origin, **bearer("one")})
        assert response.status_code == 200
        assert response.headers["access-control-allow-origin"] == "*"
        response = await api.client.get("/v1/models", headers=origin)
        assert response.status_code == 401
        assert response.headers["access-control-allow-origin"] == "*"


@pytest.mark.field_case("197")
async def test_case_197_no_web_page_may_drive_a_server_without_keys(serve) -> None:
    async with serve() as api:
        for method in ("GET", "OPTIONS"):
            headers = {"origin": "https://evil.example", "access-control-request-method": "POST"}
            response = await api.client.request(method, "/v1/models", headers=headers)
            assert "access-control-allow-origin" not in response.headers
        for origin in ("http://localhost:3000", "http://127.0.0.1:8080", "http://[::1]:5173"):
            response = await api.client.get("/v1/models", headers={"origin": origin})
            assert response.headers["access-control-allow-origin"] == origin
        response = await api.client.get("/v1/models", headers={"origin": "http://localhost.evil.example"})
        assert "access-control-allow-origin" not in response.headers
    async with serve(settings=HttpSettings(cors_origins=("https://app.example",))) as api:
        response = await api.client.get("/v1/models", headers={"origin": "https://app.example"})
        assert response.headers["access-control-allow-origin"] == "https://app.example"
        response = await api.client.get("/v1/models", headers={"origin": "http://localhost"})
        assert "access-control-allow-origin" not in response.headers


async def test_bodies_have_a_limit(serve) -> None:
    async with serve(settings=HttpSettings(max_body_bytes=1000)) as api:
        big = json.dumps({"prompt": "x" * 2000})

        async def pieces():
            yield big[:900].encode()
            yield big[900:].encode()

        for content in (big, pieces()):
            response = await api.client.post("/v1/completions", content=content)
            assert response.status_code == 413
            assert response.json()["error"]["code"] == "body_too_large"


async def test_request_ids(serve) -> None:
    async with serve() as api:
        assert (await api.client.get("/health", headers={"x-request-id": "abc"})).headers["x-request-id"] == "abc"
        first = (await api.client.get("/health")).headers["x-request-id"]
        assert first != (await api.client.get("/health", headers={"x-request-id": "a b"})).headers["x-request-id"]


async def test_unknown_routes_and_methods_have_the_error_shape(serve) -> None:
    async with serve() as api:
        response = await api.client.get("/nowhere")
        assert response.status_code == 404
        assert "/nowhere" in response.json()["error"]["message"]
        response = await api.client.get("/v1/chat/completions")
        assert response.status_code == 405
        assert response.headers["allow"] == "POST"
        assert (await api.client.get("/v1/models/other")).status_code == 404


async def test_faults_of_ours_say_nothing_of_their_insides(serve, monkeypatch) -> None:
    async with serve() as api:

        def broken(*args, **options):
            raise KeyError("secret")

        monkeypatch.setattr(api.service.front, "submit", broken)
        response = await api.post("/v1/completions", {"prompt": "hi"})
        assert response.status_code == 500
        assert "secret" not in response.text
        assert "KeyError" not in response.text


async def test_what_is_served(serve) -> None:
    async with serve(info={"api_key": "***", "ledger": [], "model_path": None}) as api:
        models = (await api.client.get("/v1/models")).json()
        assert models["data"][0]["id"] == "tiny"
        assert models["data"][0]["max_model_len"] == 512
        assert (await api.client.get("/v1/models/tiny")).json() == models["data"][0]
        assert (await api.client.get("/model_info")).json()["is_generation"] is True
        info = (await api.client.get("/server_info")).json()
        assert info["status"] == "ready"
        assert (info["model_path"], info["served_model_name"]) == ("/models/tiny", "tiny")
        assert info["ledger"] == []
        assert (await api.client.get("/get_load")).json()[0]["num_reqs"] == 0
        assert (await api.client.get("/v1/loads")).json()["loads"]


async def test_tokenize_and_back(serve) -> None:
    async with serve() as api:
        for prefix in ("", "/v1"):
            answer = (await api.post(prefix + "/tokenize", {"prompt": "Once \u4e16", "return_token_strs": True})).json()
            assert answer["count"] == len(answer["tokens"]) == len(answer["token_strs"])
            assert answer["max_model_len"] == 512
            back = (await api.post(prefix + "/detokenize", {"tokens": answer["tokens"]})).json()
            assert back["text"] == back["prompt"] == "Once \u4e16"
        assert (await api.post("/tokenize", {"prompt": ["a", "bc"]})).json()["count"] == [1, 2]
        assert (await api.post("/detokenize", {"tokens": [[65], [66]]})).json()["text"] == [
            api.tokenizer.decode([65]),
            api.tokenizer.decode([66]),
        ]
        chat = (await api.post("/tokenize", CHAT)).json()
        assert api.tokenizer.decode(chat["tokens"], False).startswith("<|im_start|>user\nhi<|im_end|>")
        for path, body in (
            ("/tokenize", {}),
            ("/tokenize", {"messages": []}),
            ("/tokenize", {"prompt": 5}),
            ("/detokenize", {"tokens": [10**9]}),
            ("/detokenize", {"tokens": "x"}),
            ("/detokenize", {}),
        ):
            assert (await api.post(path, body)).status_code == 400, body


async def test_a_model_without_a_template_says_so(serve) -> None:
    async with serve(template=None) as api:
        response = await api.post("/v1/chat/completions", CHAT)
        assert response.status_code == 400
        assert "--chat-template" in response.json()["error"]["message"]
