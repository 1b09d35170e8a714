"""An attention backend from outside the workspace: keys in blocks, with a running softmax."""
