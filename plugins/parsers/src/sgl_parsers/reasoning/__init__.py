"""Reasoning parsers: which part of an answer is thinking, decided from the prompt, the grammar and the tags."""
