"""For tests, ours and plugin authors': fake distributions, the conformance kit, and the resolution harness."""
