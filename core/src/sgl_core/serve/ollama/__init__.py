"""Ollama's API, for clients that speak it; the models behind it are the server's, so nothing is pulled or pushed."""
