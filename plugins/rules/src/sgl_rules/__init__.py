"""The configuration rules of sgl: one file per subject, one per model family, every choice known by name as data.

| stage | what is settled | files |
|---|---|---|
| sources | names, old flags, roles, context-parallel spelling, does the checkpoint fit | serving, disaggregation, context_parallel, quantization |
| platform | graphs, devices, sizes by memory | data_parallel (distributed weights), graphs, devices, sizing |
| model | what a family needs; cached state; fused all-reduces | families/, linear_attention, communication |
| parallel | replicas, context groups, pipeline | data_parallel, disaggregation, context_parallel |
| attention | backend, its pages and dtypes, cache, chunk per replica | attention_choice, attention_limits, linear_attention, memory_pool |
| moe | runners, dispatchers, expert balance | moe, moe_dispatch, elastic_experts |
| speculative | algorithm, drafts, what verifies them | speculative, speculative_drafts |
| features | weights, media, workers' environment, pools, diffusion | quantization, media, processes, memory_pool, diffusion |
| checks | tasks, last budgets | tasks, media, moe_dispatch, hisparse |

Sizes are planned before the family rules, from what was asked for: a family that switches graphs or caches later does not
change how memory was shared out. Every rule names those it follows (``after``), so that the order stands in the files;
lists in ``RULES`` are in order. Numbers and lists of models come from the reference system's release 0.5.19.
"""
