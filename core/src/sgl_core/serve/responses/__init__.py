"""OpenAI's Responses API: created, streamed in ordered events, stored in memory within a bound, continued from one another."""
