"""The OpenAI APIs as thin translations: pydantic models in, the request core's events out."""
