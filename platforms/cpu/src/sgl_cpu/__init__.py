"""The CPU platform of sgl."""
