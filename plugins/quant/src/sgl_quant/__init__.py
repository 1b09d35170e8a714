"""Quantization methods: each reads a checkpoint's own layout into codes and scales, which the platform's linear op packs."""
