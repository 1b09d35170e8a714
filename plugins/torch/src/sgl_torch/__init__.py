"""The torch runtime of sgl: layers, worker, KV pools, loaders and the reference ops."""
