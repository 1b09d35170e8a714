"""Ways of moving and storing KV pages, and training systems to match, that are known by name."""

from __future__ import annotations

from sgl_core.api.specs import Spec

from .absent import NOT_INSTALLED


def _known(name: str, summary: str) -> Spec:
    return Spec(name=name, summary=summary, available=False, unavailable_because=NOT_INSTALLED)


TRANSPORT_MOONCAKE = _known("mooncake", "Mooncake over RDMA")
TRANSPORT_MOONCAKE_TCP = _known("mooncake_tcp", "Mooncake over TCP")
TRANSPORT_NIXL = _known("nixl", "NIXL")
TRANSPORT_ASCEND = _known("ascend", "transfers between Ascend NPUs")
TRANSPORT_MORI = _known("mori", "MoRI for AMD GPUs")
TRANSPORT_FAKE = _known("fake", "no transfer, for benchmarks of decoding")

STORE_FILE = _known("file", "files in a folder")
STORE_SIM = _known("sim", "a simulated storage")
STORE_MOONCAKE = _known("mooncake", "the Mooncake store")
STORE_HF3FS = _known("hf3fs", "the 3FS file system")
STORE_NIXL = _known("nixl", "storages behind NIXL")
STORE_AIBRIX = _known("aibrix", "the AIBrix store")
STORE_DYNAMIC = _known("dynamic", "a class named in the extra configuration")
STORE_EIC = _known("eic", "the EIC store")
STORE_SIMM = _known("simm", "the SiMM store")
STORE_MORI = _known("mori", "the MoRI store")
STORE_SHM = _known("shm", "shared memory of one host")

TARGET_FSDP = _known("fsdp", "training under fully sharded data parallelism")
