"""A vendor's package without an implementation: two legal values, and a rule that says what they mean."""
