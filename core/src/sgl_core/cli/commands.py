"""Names and help lines of sgl's own commands as plain data, so that ``sgl --help`` need not import a spec for them."""

OWN_COMMANDS: dict[str, tuple[str, str]] = {
    "serve": ("Serve", "Serve a model over HTTP (OpenAI, Anthropic and native routes)"),
    "generate": ("Serve", "Generate text offline, without a server"),
    "chat": ("Serve", "Chat with a model or a running server in the terminal"),
    "bench": ("Serve", "Measure a running server or an engine"),
    "explain": ("Understand", "Show every configuration decision with its reason"),
    "facts": ("Understand", "Print what sgl knows of this machine, as JSON"),
    "plugin": ("Understand", "List, show, check and lock installed plugins"),
    "doctor": ("Understand", "Check the installation and give advice"),
}
"""Command name to (heading, help line), in the order of the help page."""
