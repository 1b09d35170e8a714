"""Several models in one server: named, loaded when asked for within a memory budget, unloaded when idle."""
