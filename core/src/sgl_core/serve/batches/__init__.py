"""Batches: files of requests, served by the same engine behind everybody else, that survive a restart of the server."""
