"""Every choice that configurations know by name, with what it can do as data."""
