"""The kernels of sgl-ops behind the seams of sgl-torch: ops, attention over pages, sampling, and the decode tape."""
