// Attention of query rows over one segment of at most 256 keys in bf16 tiles (tiles_bf16.h), softmax in f32.
//
//   keys    --round, transpose pairs-->  kt [key tile][step of 32 elements][16 pairs][16 keys][2]
//   values  --round, pair keys------->   vt [step of 32 keys][tile of 16 elements][16 pairs][16][2]
//   per 32 rows:  S [32][keys] = q . kt;  p = 2^(S - max), summed in f32, rounded to bf16;  acc [32][dim_v] = p . vt
//
// The whole segment's maximum is taken before the first exponential, so nothing is rescaled within it, and segments lie at absolute
// multiples of 256: a row's bits depend on its own query and keys only. Keys a row does not see weigh exactly zero.
#pragma once
#include "attention.h"
#include "tiles_bf16.h"

namespace SGL_NS {

constexpr int64_t kLine = kAttnSegment + 16;  // of S, in floats: 17 cache lines apart, so that a column spreads over the sets
constexpr int64_t kPLine = kAttnSegment + 32;
constexpr float kLog2e = 1.44269504088896f, kLn2 = 0.6931471805599453f;

// 2^x: degree 4 on the fraction (error 2.6e-6 relative; p is rounded to 2^-9 right after), scaled by 2^floor(x). 2^-infinity is 0.
SGL_INLINE vf exp2_v(vf x) {
  const vf r = (vf)_mm512_reduce_ps((__m512)x, 1);  // x - floor(x)
  vf p = fma(splat(0.01353417f), r, splat(0.05201146f));
  p = fma(p, r, splat(0.24144275f));
  p = fma(p, r, splat(0.69300383f));
  p = fma(p, r, splat(1.00000259f));
  return (vf)_mm512_scalef_ps((__m512)p, (__m512)x);
}

// 32 elements of a cached row from e on as bf16, times scale; elements from n on are zero.
template <KvType KV>
SGL_INLINE __m512i row32(const typename Kv<KV>::T* p, int64_t e, int64_t n, float scale) {
  if (KV == KV_BF16) {
    if (n - e >= 32) return _mm512_loadu_si512(p + e);
    return _mm512_zextsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + e)));
  }
  vf low = Kv<KV>::wide(p + e), high = n - e >= 32 ? Kv<KV>::wide(p + e + 16) : vf{};
  if (KV == KV_INT8 || KV == KV_F8E4M3) low *= scale, high *= scale;
  return two_bf16(low, high);
}

// Keys and values of positions [begin, begin + n) as B tiles, zero up to the next multiple of 32 keys.
template <KvType KV>
static void spread_keys(const AttnCall& c, int64_t n, bf16* kt, bf16* vt) {
  typedef typename Kv<KV>::T T;
  const int64_t steps = (c.dim + 31) / 32, columns = c.dim_v / 16;
  const T *k[32], *v[32];
  float ks[32], vs[32];
  const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37, 5, 36, 4, 35, 3,
                                       34, 2, 33, 1, 32, 0);
  const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
  for (int64_t b = 0; b < n; b += 32) {
    const int64_t some = n - b < 32 ? n - b : 32;
    for (int64_t i = 0; i < some; i++) {
      const int64_t pos = c.key_begin + b + i, page = pos / c.page_size;
      const int64_t slot = int64_t(c.pages[page]) * c.page_size + (pos - page * c.page_size);
      k[i] = static_cast<const T*>(c.k) + slot * c.stride_k;
      v[i] = static_cast<const T*>(c.v) + slot * c.stride_v;
      prefetch_row(k[i], c.dim);
      prefetch_row(v[i], c.dim_v);
      ks[i] = KV == KV_INT8 ? c.k_scale[slot * c.stride_scale] : KV == KV_F8E4M3 && c.k_scale ? *c.k_scale : 1.f;
      vs[i] = KV == KV_INT8 ? c.v_scale[slot * c.stride_scale] : KV == KV_F8E4M3 && c.v_scale ? *c.v_scale : 1.f;
    }
    for (int64_t h = 0; h < 32; h += 16)
      for (int64_t s = 0; s < steps; s++) {
        vf r[16];
        if (h + 16 <= some) {
          SGL_EACH(i, 16) r[i] = (vf)row32<KV>(k[h + i], s * 32, c.dim, ks[h + i]);
        } else {
          for (int64_t i = 0; i < 16; i++) r[i] = h + i < some ? (vf)row32<KV>(k[h + i], s * 32, c.dim, ks[h + i]) : vf{};
        }
        transpose(r, reinterpret_cast<float*>(kt + ((b + h) / 16 * steps + s) * kTile), 16);
      }
    for (int64_t i = 0; i < 32; i += 2)
      for (int64_t e = 0; e < c.dim_v; e += 32) {
        const __m512i a = i < some ? row32<KV>(v[i], e, c.dim_v, vs[i]) : _mm512_setzero_si512();
        const __m512i d = i + 1 < some ? row32<KV>(v[i + 1], e, c.dim_v, vs[i + 1]) : _mm512_setzero_si512();
        bf16* to = vt + (b / 32 * columns + e / 16) * kTile + i * 16;
        _mm512_store_si512(to, _mm512_permutex2var_epi16(a, low, d));
        if (e + 16 < c.dim_v) _mm512_store_si512(to + kTile, _mm512_permutex2var_epi16(a, high, d));
      }
  }
}

// Scores s [keys] of one row, already times log2(e), to weights p [keys up to the next 32]; the row sees keys [lo, hi).
SGL_INLINE void weigh_row(float* s, bf16* p, int64_t lo, int64_t hi, int64_t n, float softcap, float* m, float* l) {
  const float ninf = -__builtin_inff();
  if (hi <= lo) {
    for (int64_t i = 0; i < n; i += 32) _mm512_store_si512(p + i, _mm512_setzero_si512());
    *m = ninf;
    *l = 0;
    return;
  }
  for (int64_t i = 0; i < lo; i++) s[i] = ninf;
  for (int64_t i = hi; i < (hi + 15) / 16 * 16; i++) s[i] = ninf;
  const int64_t end = (hi + 15) / 16 * 16;
  if (softcap > 0)
    for (int64_t i = 0; i < end; i += 16) {
      const vf x = load(s + i);
      store(s + i, x == splat(ninf) ? x : tanh_v(x * (kLn2 / softcap)) * (softcap * kLog2e));
    }
  vf top = load(s), top2 = splat(ninf);
  int64_t j = 16;
  for (; j + 32 <= end; j += 32) top = max(load(s + j), top), top2 = max(load(s + j + 16), top2);
  if (j < end) top = max(load(s + j), top);
  const float t = (float)_mm512_reduce_max_ps((__m512)max(top, top2));
  vf total = vf{}, other = vf{};
  int64_t i = 0;
  for (; i + 32 <= end; i += 32) {
    const vf a = exp2_v(load(s + i) - t), b = exp2_v(load(s + i + 16) - t);
    total += a;
    other += b;
    _mm512_store_si512(p + i, two_bf16(a, b));
  }
  if (i < end) {
    const vf a = exp2_v(load(s + i) - t);
    total += a;
    _mm512_store_si512(p + i, two_bf16(a, vf{}));
    i += 32;
  }
  for (; i < n; i += 32) _mm512_store_si512(p + i, _mm512_setzero_si512());
  *m = t * kLn2;
  *l = sum(total + other);
}

// M * 16 rows from `row` on over the first n keys.
template <int M>
static void attend_rows(const AttnCall& c, int64_t row, int64_t n, const bf16* q, const bf16* kt, const bf16* vt, float* S, bf16* P) {
  const int64_t steps = (c.dim + 31) / 32, columns = c.dim_v / 16, rows = c.rows - row < M * 16 ? c.rows - row : M * 16;
  const TileWalk scores{steps * kTile, 64, kTile, steps * kTile, 64, kTile};
  for (int64_t t = 0; t < n; t += 32) {
    tile_product<M, 2>(q, kt + t / 16 * steps * kTile, steps, scores);
    tile_store<M, 2>(S + t, kLine);
  }
  for (int64_t r = 0; r < M * 16; r++) {
    float ignored[2];
    const bool real = r < rows;
    const int64_t pos = real ? c.row_pos[row + r] : 0, first = c.window > 0 ? pos - c.window + 1 - c.key_begin : 0;
    const int64_t last = pos + 1 < c.key_end ? pos + 1 - c.key_begin : c.key_end - c.key_begin;
    weigh_row(S + r * kLine, P + r * kPLine, first > 0 ? first : 0, real ? last : 0, n, c.softcap, real ? c.m + row + r : ignored,
              real ? c.l + row + r : ignored + 1);
  }
  const TileWalk values{16 * kPLine, kPLine * 2, 32, kTile, 64, columns * kTile};
  float* acc = c.acc + row * c.dim_v;
  alignas(64) float sums[M * 16 * 32];
  const bool whole = rows == M * 16;
  for (int64_t e = 0; e < columns; e += 2) {
    const bool two = e + 2 <= columns;
    two ? tile_product<M, 2>(P, vt + e * kTile, n / 32, values) : tile_product<M, 1>(P, vt + e * kTile, n / 32, values);
    float* to = whole ? acc + e * 16 : sums;
    const int64_t line = whole ? c.dim_v : 32;
    two ? tile_store<M, 2>(to, line) : tile_store<M, 1>(to, line);
    if (!whole)
      for (int64_t r = 0; r < rows; r++) memcpy(acc + r * c.dim_v + e * 16, sums + r * 32, two ? 128 : 64);
  }
}

// See AttnCall; c.scratch is not used.
static void attend_segment_bf16(const AttnCall& c) {
  const int64_t steps = (c.dim + 31) / 32, columns = c.dim_v / 16, panels = (c.rows + 15) / 16;
  const int64_t seen = c.row_pos[c.rows - 1] + 1, n = (seen < c.key_end ? seen : c.key_end) - c.key_begin;
  if (n <= 0) return;
  bf16* kt = static_cast<bf16*>(thread_scratch(0, (kAttnSegment * (steps * 32 + c.dim_v) + panels * 16 * steps * 32 + 32 * kPLine) * 2 + 32 * kLine * 4));
  bf16* vt = kt + kAttnSegment * steps * 32;
  bf16* q = vt + kAttnSegment * columns * 16;
  bf16* P = q + panels * 16 * steps * 32;
  float* S = reinterpret_cast<float*>(P + 32 * kPLine);
  switch (c.kv) {
    case KV_F32: spread_keys<KV_F32>(c, n, kt, vt); break;
    case KV_F16: spread_keys<KV_F16>(c, n, kt, vt); break;
    case KV_BF16: spread_keys<KV_BF16>(c, n, kt, vt); break;
    case KV_F8E4M3: spread_keys<KV_F8E4M3>(c, n, kt, vt); break;
    case KV_INT8: spread_keys<KV_INT8>(c, n, kt, vt); break;
  }
  for (int64_t p = 0; p < panels; p++)
    rows_bf16(c.q + p * 16 * c.dim, c.dim, c.rows - p * 16 < 16 ? c.rows - p * 16 : 16, c.dim, steps, q + p * steps * kTile);
  whole_tiles();
  for (int64_t row = 0; row < c.rows; row += 32) {
    const int64_t last = row + 32 < c.rows ? row + 31 : c.rows - 1, until = c.row_pos[last] + 1 - c.key_begin;
    const int64_t keys = until < n ? until : n;
    if (keys <= 0) continue;
    const bf16* rows = q + row / 16 * steps * kTile;
    if (c.rows - row > 16) attend_rows<2>(c, row, (keys + 31) / 32 * 32, rows, kt, vt, S, P);
    else attend_rows<1>(c, row, (keys + 31) / 32 * 32, rows, kt, vt, S, P);
  }
  _tile_release();
}

}  // namespace SGL_NS
