// y = x W^T (+ bias): quantizes the activations once, then hands (matrix, tiles, tokens) chunks to the pool.
#include "api.h"
#include "half.h"
#include "linear.h"
#include "pool.h"

namespace {

// Weights a chunk should read when few tokens share it: long enough to hide the hand-out (50 ns), short enough to balance.
constexpr int64_t kChunkBytes = 48 << 10;
// Tokens a chunk covers when many do: their quantized activations (128 x 1536 bytes) stay in a 512 KiB L2.
constexpr int64_t kChunkTokens = 96;
// Multiply-adds a chunk should hold then (about 50 us of one core).
constexpr int64_t kChunkMacs = 4 << 20;

struct Plan {
  int64_t tiles_per[kMaxMatrices], chunks[kMaxMatrices], token_chunk, token_chunks, total;
};

Plan plan_chunks(const LinearArgs& a) {
  Plan p{};
  p.token_chunk = a.T <= 2 * kChunkTokens ? (a.T > kChunkTokens ? (a.T + 1) / 2 : a.T) : kChunkTokens;
  p.token_chunk = a.T > 16 ? (p.token_chunk + 15) / 16 * 16 : p.token_chunk;  // whole register tiles
  p.token_chunks = (a.T + p.token_chunk - 1) / p.token_chunk;
  int64_t tiles = 0;
  for (int i = 0; i < a.units(); i++) tiles += static_cast<const PackedHeader*>(a.packed[i])->tiles;
  // At least 4 chunks a thread where the work allows it.
  const int64_t most = tiles * p.token_chunks / (4 * pool_threads()) + 1;
  for (int i = 0; i < a.units(); i++) {
    const PackedHeader* h = static_cast<const PackedHeader*>(a.packed[i]);
    int64_t by_bytes = kChunkBytes / (a.unit_size() * h->tile_bytes), by_macs = kChunkMacs / (a.unit_size() * 16 * h->k_pad * p.token_chunk);
    int64_t per = by_bytes < by_macs || a.T == 1 ? by_bytes : by_macs;
    if (per > most) per = most;
    p.tiles_per[i] = per < 1 ? 1 : per;
    p.chunks[i] = (h->tiles + p.tiles_per[i] - 1) / p.tiles_per[i];
    p.total += p.chunks[i] * p.token_chunks;
  }
  return p;
}

struct Quantized { int8_t* q; float *d, *s; };

// Shared scratch in the calling thread: it waits until every chunk is done.
Quantized quantize(const Kernels* k, const LinearArgs& a, int64_t n_in, int64_t k_pad) {
  const int64_t blocks = k_pad / 32, T = a.T;
  const int64_t q_bytes = (T * k_pad + 63) / 64 * 64, d_bytes = (T * blocks * 4 + 63) / 64 * 64;
  uint8_t* base = static_cast<uint8_t*>(thread_scratch(0, q_bytes + 4 * d_bytes + 256));
  Quantized z{reinterpret_cast<int8_t*>(base), reinterpret_cast<float*>(base + q_bytes), reinterpret_cast<float*>(base + q_bytes + d_bytes)};
  auto rows = [&](int64_t from, int64_t to) {
    for (int64_t t = from; t < to; t++)
      k->quantize_row(a.x + t * a.ldx, n_in, k_pad, z.q + t * k_pad, z.d + t * blocks, z.s + t * 3 * blocks);
  };
  if (T * k_pad <= 32768) rows(0, T);
  else parallel_for((T + 15) / 16, [&](int64_t i) { rows(i * 16, (i + 1) * 16 < T ? (i + 1) * 16 : T); });
  return z;
}

// Tile t of matrix i for the rows of c, to c.out.
void one_tile(const Kernels* k, const LinearArgs& a, TileCall c, int i, int64_t t) {
  const PackedHeader* h = static_cast<const PackedHeader*>(a.packed[i]);
  c.h = h;
  c.tile = packed_tile(h, t);
  float bias16[16];
  if (a.bias[i]) {
    memset(bias16, 0, sizeof bias16);
    memcpy(bias16, a.bias[i] + t * 16, size_t(c.cols) * 4);
    c.bias = bias16;
  }
  if (!h->is_int) return k->tile_float(c);
  if (!(a.flags & LINEAR_EXACT)) return k->tile_int(c);
  float* w = static_cast<float*>(thread_scratch(1, h->k_pad * 64));
  k->dequant_tile(h, c.tile, w);
  PackedHeader as_f32 = *h;
  as_f32.format = SGL_F32;
  c.h = &as_f32;
  c.tile = reinterpret_cast<const uint8_t*>(w);
  k->tile_float(c);
}

void linear_rows(const Kernels* k, const LinearArgs& a) {
  const PackedHeader* first = static_cast<const PackedHeader*>(a.packed[0]);
  const bool exact = a.flags & LINEAR_EXACT;
  bool any_int = false;
  for (int i = 0; i < a.n; i++) any_int |= static_cast<const PackedHeader*>(a.packed[i])->is_int != 0;
  Quantized z{};
  if (any_int && !exact) z = quantize(k, a, first->n_in, first->k_pad);
  const Plan p = plan_chunks(a);
  parallel_for(p.total, [&](int64_t chunk) {
    int i = 0;
    while (chunk >= p.chunks[i] * p.token_chunks) chunk -= p.chunks[i++] * p.token_chunks;
    const PackedHeader* h = static_cast<const PackedHeader*>(a.packed[i]);
    const int64_t tc = chunk / p.chunks[i], g = chunk % p.chunks[i];  // neighbours share tokens, then move on
    const int64_t t0 = tc * p.token_chunk, t1 = t0 + p.token_chunk < a.T ? t0 + p.token_chunk : a.T;
    const int64_t tile1 = (g + 1) * p.tiles_per[i] < h->tiles ? (g + 1) * p.tiles_per[i] : h->tiles;
    TileCall c{};
    c.x = a.x + t0 * a.ldx;
    c.ldx = a.ldx;
    if (z.q) {
      const int64_t blocks = h->blocks;
      c.q = z.q + t0 * h->k_pad;
      c.ldq = h->k_pad;
      c.d = z.d + t0 * blocks;
      c.ldd = blocks;
      c.s = z.s + t0 * 3 * blocks;
      c.lds = 3 * blocks;
    }
    c.T = t1 - t0;
    c.accumulate = (a.flags & LINEAR_ACCUMULATE) ? 1 : 0;
    for (int64_t t = g * p.tiles_per[i]; t < tile1; t++) {
      float* out = a.out[i] + t0 * a.ldo[i] + t * 16;
      c.cols = int32_t(h->n_out - t * 16 < 16 ? h->n_out - t * 16 : 16);
      if (a.act < 0) {
        c.out = out;
        c.ldo = a.ldo[i];
        one_tile(k, a, c, i, t);
        continue;
      }
      float* both = static_cast<float*>(thread_scratch(2, c.T * 32 * 4));
      c.ldo = 32;
      for (int m = 0; m < 2; m++) {
        c.out = both + m * 16;
        one_tile(k, a, c, m, t);
      }
      for (int64_t r = 0; r < c.T; r++) k->act_mul(both + r * 32, both + r * 32 + 16, out + r * a.ldo[i], c.cols, a.act);
    }
  });
}

void linear_run(const LinearArgs& a) {
  const Kernels* k = sgl_kernels();
  const bool tiles = k->panel_bf16 && !(a.flags & LINEAR_EXACT) && a.bf16_from < a.T;
  if (!tiles) return linear_rows(k, a);
  LinearArgs part = a;
  part.T = a.bf16_from;
  if (part.T > 0) linear_rows(k, part);
  part.T = a.T - a.bf16_from;
  part.x += a.bf16_from * a.ldx;
  for (int i = 0; i < a.units(); i++) part.out[i] += a.bf16_from * a.ldo[i];
  linear_bf16(k, part);
}

struct EmbedArgs { const void* packed; const void* ids; int32_t ids64; int32_t pad; int64_t T, ldo; float* out; float scale; int32_t pad2; };

// Row gather from packed tiles: a row's codes lie 64 bytes apart.
void embed_run(const EmbedArgs& a) {
  const Kernels* k = sgl_kernels();
  const PackedHeader* h = static_cast<const PackedHeader*>(a.packed);
  auto one = [&](int64_t t) {
    int64_t id = a.ids64 ? static_cast<const int64_t*>(a.ids)[t] : static_cast<const int32_t*>(a.ids)[t];
    if (id < 0 || id >= h->n_out) id = 0;  // padding rows of a recorded bucket
    const uint8_t* tile = packed_tile(h, id / 16);
    const int r = int(id % 16);
    float* out = a.out + t * a.ldo;
    float* w = static_cast<float*>(thread_scratch(1, h->k_pad * 64));
    if (h->is_int) {
      k->dequant_tile(h, tile, w);
      for (int64_t i = 0; i < h->n_in; i++) out[i] = w[i * 16 + r] * a.scale;
    } else {
      for (int64_t i = 0; i < h->n_in; i++) {
        const uint8_t* p = tile + (i * 16 + r) * (h->code_bits / 8);
        float v;
        if (h->format == SGL_F32) {
          memcpy(&v, p, 4);
        } else if (h->format == SGL_F16) {
          v = read_half(p);
        } else if (h->format == SGL_BF16) {
          const uint32_t u = uint32_t(read16(p)) << 16;
          memcpy(&v, &u, 4);
        } else {  // e4m3 is f16 one bit narrower, with another bias
          float sc;
          memcpy(&sc, tile + h->d_off + ((i / 32) >> h->gshift) * h->d_stride + r * 4, 4);
          v = half_to_float(uint16_t(((*p & 0x80) << 8) | ((*p & 0x7f) << 7))) * 256.f * sc;
        }
        out[i] = v * a.scale;
      }
    }
  };
  if (a.T <= 2) for (int64_t t = 0; t < a.T; t++) one(t);
  else parallel_for(a.T, one);
}

int check(const void* packed, const char* what) {
  if (!packed) return fail("%s: the packed weight is null", what);
  if (memcmp(packed, "SGLPACK2", 8)) return fail("%s: not a packed weight (pack it with sgl_ops.linear.pack)", what);
  return 0;
}

}  // namespace

// act: an ActKind for out[0] = act(first product) * second product, or -1.
SGL_API int sgl_linear(int32_t n, const void* const* packed, const float* x, int64_t ldx, int64_t T, float* const* out,
                       const int64_t* ldo, const float* const* bias, int32_t flags, int64_t bf16_from, int32_t act) {
  if (n < 1 || n > kMaxMatrices) return fail("linear: between 1 and %d matrices at a time, not %d", kMaxMatrices, n);
  if (T < 0) return fail("linear: %lld rows", (long long)T);
  if (act < -1 || act > ACT_GELU_TANH) return fail("linear: activation %d is unknown", act);
  if (act >= 0 && (n != 2 || (flags & LINEAR_ACCUMULATE))) return fail("linear: a gated product has two matrices and does not accumulate");
  if (bf16_from < 0) return fail("linear: bf16 from row %lld", (long long)bf16_from);
  if (T == 0) return 0;
  LinearArgs a{};
  a.n = n;
  a.flags = flags;
  a.act = act;
  a.x = x;
  a.ldx = ldx;
  a.T = T;
  a.bf16_from = bf16_from;
  for (int i = 0; i < n; i++) {
    if (check(packed[i], "linear")) return -1;
    const PackedHeader *h = static_cast<const PackedHeader*>(packed[i]), *h0 = static_cast<const PackedHeader*>(packed[0]);
    if (act >= 0 && h->n_out != h0->n_out) return fail("linear: a gate of %lld outputs for %lld", (long long)h0->n_out, (long long)h->n_out);
    if (h->n_in != h0->n_in) return fail("linear: matrices with %lld and %lld inputs cannot share x", (long long)h0->n_in, (long long)h->n_in);
    if (T > 1 && ldx < h->n_in) return fail("linear: row stride %lld of x is below %lld inputs", (long long)ldx, (long long)h->n_in);
    a.packed[i] = packed[i];
    a.out[i] = out[act < 0 ? i : 0];
    a.ldo[i] = ldo[act < 0 ? i : 0];
    a.bias[i] = bias ? bias[i] : nullptr;
  }
  return SGL_SUBMIT(LinearArgs, linear_run, a);
}

// out[t] = row ids[t] of the packed matrix, as f32, times scale. ids outside the matrix read row 0.
SGL_API int sgl_embed(const void* packed, const void* ids, int32_t ids64, int64_t T, float* out, int64_t ldo, float scale) {
  if (check(packed, "embed")) return -1;
  EmbedArgs a{};
  a.packed = packed;
  a.ids = ids;
  a.ids64 = ids64;
  a.T = T;
  a.out = out;
  a.ldo = ldo;
  a.scale = scale;
  return SGL_SUBMIT(EmbedArgs, embed_run, a);
}
