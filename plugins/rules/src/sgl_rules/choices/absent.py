"""Why a choice that is known by name cannot be used yet."""

NOT_INSTALLED = "no installed package serves it yet"
