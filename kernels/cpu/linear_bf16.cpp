// y = x W^T in bf16 tiles: rounds the activations once, then hands (matrix, tiles, rows) chunks to the pool. A chunk spreads its
// weights to bf16 into its thread's cache and passes all its rows over them.
#include "linear.h"
#include "pool.h"

namespace {

// Spread weights of a chunk: they stay in a 2 MiB L2 beside the rows that pass.
constexpr int64_t kSpreadBytes = 512 << 10;
// Rows of a chunk at least: spreading a weight costs about as much as multiplying it by 16 rows.
constexpr int64_t kLeastRows = 128;

struct Plan {
  int64_t tiles_per[kMaxMatrices], chunks[kMaxMatrices], row_chunk, row_chunks, total;
};

Plan plan_chunks(const LinearArgs& a, int64_t k_pad) {
  Plan p{};
  int64_t tiles = 0, most = kSpreadBytes / (k_pad * 32);
  for (int i = 0; i < a.n; i++) tiles += static_cast<const PackedHeader*>(a.packed[i])->tiles;
  const int size = a.unit_size();
  // At least 4 chunks a thread: first by tiles, then by rows.
  const int64_t wanted = 4 * pool_threads();
  const int64_t by_rows = a.T / 512 > 1 ? a.T / 512 : 1;
  if (most > tiles * by_rows / wanted) most = tiles * by_rows / wanted;
  most = most < 2 ? 2 : most / 2 * 2;
  for (int i = 0; i < a.units(); i++) {
    const int64_t n = static_cast<const PackedHeader*>(a.packed[i])->tiles;
    const int64_t parts = (n * size + most - 1) / most;
    p.tiles_per[i] = size == 2 ? (n + parts - 1) / parts : ((n + parts - 1) / parts + 1) / 2 * 2;  // B tiles come in twos
    p.chunks[i] = (n + p.tiles_per[i] - 1) / p.tiles_per[i];
    p.total += p.chunks[i];
  }
  p.row_chunks = (wanted + p.total - 1) / p.total;
  if (p.row_chunks > a.T / kLeastRows) p.row_chunks = a.T / kLeastRows;
  if (p.row_chunks < 1) p.row_chunks = 1;
  p.row_chunk = ((a.T + p.row_chunks - 1) / p.row_chunks + 31) / 32 * 32;
  p.row_chunks = (a.T + p.row_chunk - 1) / p.row_chunk;
  p.total *= p.row_chunks;
  return p;
}

}  // namespace

void linear_bf16(const Kernels* k, const LinearArgs& a) {
  const PackedHeader* first = static_cast<const PackedHeader*>(a.packed[0]);
  const int64_t steps = first->k_pad / 32, panels = (a.T + 15) / 16, panel = first->k_pad * 16;
  uint16_t* rows = static_cast<uint16_t*>(thread_scratch(0, panels * panel * 2));
  auto round = [&](int64_t i) {
    const int64_t left = a.T - i * 16;
    k->rows_bf16(a.x + i * 16 * a.ldx, a.ldx, left < 16 ? left : 16, first->n_in, steps, rows + i * panel);
  };
  if (panels * panel <= 32768) for (int64_t i = 0; i < panels; i++) round(i);
  else parallel_for(panels, round);
  const Plan p = plan_chunks(a, first->k_pad);
  parallel_for(p.total, [&](int64_t chunk) {
    int i = 0;
    while (chunk >= p.chunks[i] * p.row_chunks) chunk -= p.chunks[i++] * p.row_chunks;
    const PackedHeader* h = static_cast<const PackedHeader*>(a.packed[i]);
    const int64_t row = chunk / p.chunks[i] * p.row_chunk, tile = chunk % p.chunks[i] * p.tiles_per[i];
    PanelCall c{};
    c.a = rows + row / 16 * panel;
    c.steps = steps;
    c.rows = row + p.row_chunk < a.T ? p.row_chunk : a.T - row;
    const int64_t count = tile + p.tiles_per[i] < h->tiles ? p.tiles_per[i] : h->tiles - tile, size = a.unit_size();
    c.tiles = count * size;
    c.cols = h->n_out - tile * 16;
    c.out = a.out[i] + row * a.ldo[i] + tile * 16;
    c.ldo = a.ldo[i];
    c.bias = a.bias[i] ? a.bias[i] + tile * 16 : nullptr;
    c.accumulate = (a.flags & LINEAR_ACCUMULATE) ? 1 : 0;
    c.act = a.act;
    if (size == 2) c.bias_up = a.bias[1] ? a.bias[1] + tile * 16 : nullptr;
    uint16_t* b = static_cast<uint16_t*>(thread_scratch(1, c.tiles * h->k_pad * 32));
    for (int64_t m = 0; m < size; m++) {
      const PackedHeader* from = static_cast<const PackedHeader*>(a.packed[i + m]);
      for (int64_t t = 0; t < count; t++) k->spread_bf16(from, packed_tile(from, tile + t), b + (t * size + m) * h->k_pad * 16);
    }
    c.b = b;
    k->panel_bf16(c);
  });
}
