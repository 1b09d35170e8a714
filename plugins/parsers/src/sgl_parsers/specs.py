"""The specs of every parser: names, aliases of the reference system, and the chat-template strings by which ``auto`` picks one."""

from __future__ import annotations

from sgl_core.api import ParserSpec

_SPECIAL = frozenset({"special_tokens"})
"""The markers may be special tokens, so the text a parser gets must keep them."""


def _tool(
    name: str, target: str, summary: str, markers: tuple[str, ...] = (), aliases: tuple[str, ...] = ()
) -> ParserSpec:
    return ParserSpec(
        name=name,
        target=f"sgl_parsers.tools.{target}",
        summary=summary,
        template_markers=markers,
        aliases=aliases,
        flags=_SPECIAL,
    )


def _reasoning(
    name: str, target: str, summary: str, markers: tuple[str, ...] = (), aliases: tuple[str, ...] = ()
) -> ParserSpec:
    return ParserSpec(
        name=name,
        target=f"sgl_parsers.{target}",
        summary=summary,
        template_markers=markers,
        aliases=aliases,
        flags=_SPECIAL,
    )


HERMES = _tool(
    "hermes",
    "hermes:Hermes",
    "JSON objects in <tool_call> tags",
    ('{"name": <function-name>', "<tool_call>"),
    ("qwen", "qwen25", "trinity"),
)
QWEN3_CODER = _tool(
    "qwen3_coder", "qwen3_coder:Qwen3Coder", "function and parameter tags", ("<function=", "<parameter="), ("step3p5",)
)
MIMO = _tool("mimo", "qwen3_coder:Qwen3Coder", "MiMo: function and parameter tags")
GLM = _tool("glm", "glm:Glm", "key and value tags in <tool_call>", ("<arg_key>", "<arg_value>"), ("glm45", "glm47"))
LLAMA3 = _tool(
    "llama3",
    "llama3:Llama3",
    "JSON objects with parameters",
    ('"parameters": dictionary of argument name', "<|python_tag|>"),
)
PYTHONIC = _tool("pythonic", "pythonic:Pythonic", "a list of Python calls", ("<|python_start|>",), ("llama4",))
OLMO3 = _tool("olmo3", "pythonic:Olmo3", "Python calls in <function_calls>", ("<function_calls>",))
GEMMA3 = _tool("gemma3", "pythonic:Gemma3", "Python calls in a tool_code fence", ("```tool_code",))
MISTRAL = _tool("mistral", "mistral:Mistral", "[TOOL_CALLS] with a list or with names", ("[TOOL_CALLS]",))
DEEPSEEK_V3 = _tool("deepseekv3", "deepseek:DeepSeekV3", "DeepSeek V3 and R1", ("<｜tool▁calls▁begin｜>", "```json"))
DEEPSEEK_V31 = _tool("deepseekv31", "deepseek:DeepSeekV31", "DeepSeek V3.1", ("<｜tool▁calls▁begin｜>",))
DEEPSEEK_V32 = _tool("deepseekv32", "deepseek:DeepSeekV32", "DeepSeek V3.2: DSML tags", ("｜DSML｜",), ("deepseekv4",))
KIMI_K2 = _tool("kimi_k2", "kimi_k2:KimiK2", "Kimi K2: ids carry the name", ("<|tool_calls_section_begin|>",))
GPT_OSS = _tool("gpt-oss", "harmony:Harmony", "the harmony format", ("<|channel|>", "<|message|>"))
MINIMAX_M2 = _tool("minimax-m2", "invoke_tags:MiniMaxM2", "invoke tags", ("<minimax:tool_call>",))
STEP3 = _tool("step3", "invoke_tags:Step3", "steptml invoke tags", ("steptml:invoke",))
GEMMA4 = _tool("gemma4", "gemma4:Gemma4", "call:name{...} with quote tokens", ("<|tool_call>",))
FUNCTION_GEMMA = _tool(
    "functiongemma", "gemma4:FunctionGemma", "call:name{...} with escape tokens", ("<start_function_call>",)
)
PHI4 = _tool("phi4", "json_lists:Phi4", "Phi-4-mini", ("<|/tool_call|>",))
GRANITE = _tool("granite", "json_lists:Granite", "Granite 3", ("<|tool_call|>",))
INTERNLM = _tool("internlm", "json_lists:InternLm", "InternLM and InternS1", ("<|action_start|>",), ("interns1",))
COMMAND_R = _tool("command-r", "json_lists:CommandR", "Command R7B and A", ("<|START_ACTION|>",))
XLAM = _tool("xlam", "json_lists:Xlam", "a JSON list as the answer")
BRACKET = _tool("bracket", "bracket:Bracket", "[Calling tool: name({...})]", ("[Calling tool:",))

_R = "reasoning.families:"
R_DEEPSEEK_R1 = _reasoning(
    "deepseek-r1", _R + "DeepSeekR1", "thinking from the first token", ("<｜Assistant｜><think>",)
)
R_DEEPSEEK_V3 = _reasoning(
    "deepseek-v3",
    _R + "DeepSeekV3",
    "DeepSeek V3.1 and V3.2, hybrid",
    ("<｜Assistant｜>", "</think>"),
    ("deepseek-v4",),
)
R_QWEN3 = _reasoning(
    "qwen3", _R + "Qwen3", "Qwen3: the model or the prompt opens <think>", ("<think>",), ("interns1", "dots")
)
R_QWEN3_THINKING = _reasoning("qwen3-thinking", _R + "Qwen3Thinking", "Qwen3-Thinking: thinking from the first token")
R_GLM = _reasoning("glm45", _R + "Glm45", "GLM-4.5 to 4.7", ("<think>", "[gMASK]"))
R_MIMO = _reasoning("mimo", _R + "Mimo", "MiMo")
R_OLMO3 = _reasoning("olmo3", _R + "Olmo3", "Olmo 3 Think", ("<think>", "<functions>"))
R_KIMI = _reasoning("kimi", _R + "Kimi", "Kimi VL", ("◁think▷",))
R_KIMI_K2 = _reasoning("kimi_k2", _R + "KimiK2", "Kimi K2 Thinking", ("<think>", "<|tool_calls_section_begin|>"))
R_GPT_OSS = _reasoning("gpt-oss", "tools.harmony:Harmony", "the harmony format", ("<|channel|>", "<|message|>"))
R_MINIMAX = _reasoning("minimax", _R + "MiniMax", "MiniMax M1 and M2", ("<think>", "<minimax:tool_call>"))
R_STEP3 = _reasoning("step3", _R + "Step3", "Step3", ("<think>", "steptml"), ("step3p5",))
R_NEMOTRON = _reasoning("nemotron_3", _R + "Nemotron", "Nemotron 3")
R_MAGISTRAL = _reasoning("mistral", _R + "Magistral", "Magistral", ("[THINK]",), ("magistral",))
R_GRANITE = _reasoning("granite", _R + "Granite", "Granite 3.2", ("Here is my thought process:",))
R_GEMMA4 = _reasoning("gemma4", _R + "Gemma4", "Gemma 4", ("<|channel>",))
R_COMMAND_A = _reasoning("command-a", _R + "CommandA", "Command A Reasoning", ("<|START_THINKING|>",))
R_HUNYUAN = _reasoning("hunyuan", _R + "Hunyuan", "Hunyuan A13B", ("<think>", "<answer>"))
R_MINIMAX_APPEND = _reasoning(
    "minimax-append-think", _R + "MiniMax", "MiniMax, the name of the reference for answers that begin inside thinking"
)
LFM2 = _tool("lfm2", "pythonic:Lfm2", "Python calls between markers", ("<|tool_call_start|>",))
GIGACHAT3 = _tool("gigachat3", "json_lists:GigaChat3", "one JSON object behind a role", ("function call<|role_sep|>",))


def _later(name: str) -> ParserSpec:
    """A family of the reference that no parser here reads yet: legal in configuration, refused when it is asked to serve."""
    return ParserSpec(
        name=name,
        summary="a family without a parser yet",
        available=False,
        unavailable_because="no installed parser reads it yet",
    )


T_APERTUS = _tool("apertus2509", "apertus:Apertus", "a JSON list of {name: arguments}", ("<|tools_prefix|>",))
T_COHERE4 = _later("cohere_command4")
T_DOTS = _tool("dots", "invoke_tags:Dots", "invoke tags of dots", ("<dots_function_call>",))
T_HUNYUAN = _tool("hunyuan", "hunyuan:Hunyuan", "HY 3: key and value tags; A13B: a JSON list", ("<tool_calls",))
T_INKLING = _later("inkling")
T_KIMI_K3 = _later("kimi_k3")
T_LING3 = _tool("ling3", "glm:Glm", "Ling 3: key and value tags in <tool_call>")
T_MINICPM5 = _tool("minicpm5", "invoke_tags:MiniCpm5", "function and param tags", ("<param name=",))
T_MINIMAX_M3 = _later("minimax-m3")
T_MUSE = _later("muse")
T_POOLSIDE = _later("poolside_v1")
T_SPARK25 = _later("spark25")
R_APERTUS = _reasoning("apertus2509", _R + "Apertus", "Apertus", ("<|inner_prefix|>",))
R_COHERE4 = _later("cohere_command4")
R_INKLING = _later("inkling")
R_KIMI_K3 = _later("kimi_k3")
R_LING3 = _reasoning("ling3", _R + "Ling3", "Ling 3")
R_MINIMAX_M3 = _later("minimax-m3")
R_MUSE = _later("muse")
R_POOLSIDE = _later("poolside_v1")
