"""Scheduling without a model: requests, pages, the prefix cache, batches and the messages between processes."""
