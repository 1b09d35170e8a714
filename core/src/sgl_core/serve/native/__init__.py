"""The native generate API of the reference system: its fields and its answer's shape."""
