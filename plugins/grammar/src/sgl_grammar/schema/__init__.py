"""Reading JSON schemas: where subschemas stand, whether a schema is one, and what a backend holds exactly."""
