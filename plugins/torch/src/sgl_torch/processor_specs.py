"""The specs of the ready logit processors, apart from them, which import torch. Aliases are the reference system's class names."""

from __future__ import annotations

from sgl_core.api import ChoiceSpec


def _ready(name: str, target: str, alias: str, summary: str) -> ChoiceSpec:
    return ChoiceSpec(
        name=name,
        target=f"sgl_torch.sampling.ready_processors:{target}",
        aliases=(alias,) if alias else (),
        summary=summary,
    )


DISALLOWED_TOKENS = _ready(
    "disallowed_tokens", "DisallowedTokens", "DisallowedTokensLogitsProcessor", "token_ids are never drawn"
)
ALLOWED_TOKENS = _ready("allowed_tokens", "AllowedTokens", "", "nothing but token_ids is drawn")
THINKING_BUDGET = _ready(
    "thinking_budget", "ThinkingBudget", "", "thinking ends after thinking_budget tokens; the request names the marks"
)
QWEN3_THINKING_BUDGET = _ready(
    "qwen3_thinking_budget",
    "Qwen3ThinkingBudget",
    "Qwen3ThinkingBudgetLogitProcessor",
    "Qwen3's thinking ends after thinking_budget tokens",
)
DEEPSEEK_R1_THINKING_BUDGET = _ready(
    "deepseek_r1_thinking_budget",
    "DeepSeekR1ThinkingBudget",
    "DeepSeekR1ThinkingBudgetLogitProcessor",
    "DeepSeek-R1's thinking ends after thinking_budget tokens",
)
NO_REPEAT_NGRAM = _ready(
    "no_repeat_ngram",
    "NoRepeatNgram",
    "DeepseekOCRNoRepeatNGramLogitProcessor",
    "no n-gram comes twice within a window",
)
