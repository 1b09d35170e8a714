"""A model architecture from outside the workspace: StarCoder2."""
