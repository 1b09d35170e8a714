// Attention of at most 16 query rows a kv head (a decode step) over one segment of a bf16 cache. The products and sums of
// attention_bf16.h, so the same bits, for keys that are read once: nothing is spread that is not used again.
//
//   keys    --as they lie-->     A [16 keys][32 elements], of one kv head
//   queries --round, pair-->     B [16 pairs][16 rows][2]: each head's rows in columns of their own, zero elsewhere, so that all
//                                heads add up in one C [16 keys][16 rows];  transposed: S [row][keys]
//   values  --interleave keys->  B [16 pairs][16 elements][2], of 32 keys;  acc [16 rows][element] += P [rows][32 keys] . B
//
// Interleaving stays within 128-bit lanes (one shuffle for 32 elements): the low half of every lane's elements sums up in one tile, the
// high half in the next, and both are put in order once a segment.
#pragma once
#include "attention_bf16.h"

namespace SGL_NS {

constexpr int64_t kKeysAtOnce = 64;  // four C tiles share the queries' B tile
typedef KeyRows<KV_BF16, kAttnSegment> CachedRows;

// 16 keys as A tiles: head h, elements from 32 s on, at `rows + h * head + 32 s`; `line` bytes apart.
struct KeyTile {
  const bf16* rows;
  int64_t head, line;
};

// Keys [t, t + 16) of heads [h0, h0 + heads): where they lie, if all are there and equally far apart, else a copy that ends in zeros.
static KeyTile key_tile(const AttnCall& c, const CachedRows& keys, int64_t h0, int64_t heads, int64_t t, int64_t n, bf16* copy) {
  const int64_t apart = keys.k[t + 1] - keys.k[t];
  int64_t even = t + 16 <= n && c.dim % 32 == 0;
  for (int64_t i = 1; i < 16; i++) even &= keys.k[t + i] - keys.k[t + i - 1] == apart;
  if (even) return {keys.k[t] + h0 * c.head_stride_k, c.head_stride_k, apart * 2};
  const int64_t width = (c.dim + 31) / 32 * 32;
  for (int64_t i = 0; i < 16; i++)
    for (int64_t h = 0; h < heads; h++)
      for (int64_t e = 0; e < width; e += 32)
        _mm512_store_si512(copy + (i * heads + h) * width + e, t + i < n ? row32<KV_BF16>(keys.k[t + i] + (h0 + h) * c.head_stride_k, e, c.dim, 1.f)
                                                                          : _mm512_setzero_si512());
  return {copy, width, heads * width * 2};
}

// Rows of `heads` heads, R each, as B tiles [head][step].
static void query_tiles(const float* q, int64_t heads, int64_t R, int64_t dim, int64_t steps, bf16* to) {
  alignas(64) bf16 row[512];
  memset(to, 0, size_t(heads * steps * kTile) * 2);
  for (int64_t h = 0; h < heads; h++)
    for (int64_t r = 0; r < R; r++, q += dim)
      for (int64_t s = 0; s < steps; s++) {
        const bool whole = dim - s * 32 >= 32;
        _mm512_store_si512(row, two_bf16(load(q + s * 32), whole ? load(q + s * 32 + 16) : vf{}));
        uint32_t pair;
        bf16* column = to + (h * steps + s) * kTile + (h * R + r) * 2;
        for (int64_t i = 0; i < 16; i++) {
          memcpy(&pair, row + 2 * i, 4);
          memcpy(column + i * 32, &pair, 4);
        }
      }
}

// C [N * 16 keys][16 rows] of `heads` heads.
template <int N>
SGL_INLINE void score_tiles(const KeyTile* a, const bf16* q, int64_t heads, int64_t steps, float* to) {
  _tile_zero(0);
  if (N > 1) _tile_zero(1);
  if (N > 2) _tile_zero(2);
  if (N > 3) _tile_zero(3);
  for (int64_t h = 0; h < heads; h++)
    for (int64_t s = 0; s < steps; s++, q += kTile) {
      _tile_loadd(7, q, 64);
      _tile_loadd(4, a[0].rows + h * a[0].head + s * 32, a[0].line);
      _tile_dpbf16ps(0, 4, 7);
      if (N > 1) {
        _tile_loadd(5, a[1].rows + h * a[1].head + s * 32, a[1].line);
        _tile_dpbf16ps(1, 5, 7);
      }
      if (N > 2) {
        _tile_loadd(6, a[2].rows + h * a[2].head + s * 32, a[2].line);
        _tile_dpbf16ps(2, 6, 7);
      }
      if (N > 3) {
        _tile_loadd(4, a[3].rows + h * a[3].head + s * 32, a[3].line);
        _tile_dpbf16ps(3, 4, 7);
      }
    }
  _tile_stored(0, to, 64);
  if (N > 1) _tile_stored(1, to + 256, 64);
  if (N > 2) _tile_stored(2, to + 512, 64);
  if (N > 3) _tile_stored(3, to + 768, 64);
}

// S [16 rows][n keys].
static void scores_few_bf16(const AttnCall& c, const CachedRows& keys, int64_t h0, int64_t heads, int64_t n, const bf16* q, bf16* copies,
                            float* S) {
  const int64_t steps = (c.dim + 31) / 32;
  alignas(64) float found[kKeysAtOnce * 16];
  for (int64_t t = 0; t < n; t += kKeysAtOnce) {
    const int64_t some = n - t < kKeysAtOnce ? n - t : kKeysAtOnce, tiles = (some + 15) / 16;
    KeyTile a[4];
    for (int64_t i = 0; i < tiles; i++) a[i] = key_tile(c, keys, h0, heads, t + i * 16, n, copies + i * 16 * heads * steps * 32);
    if (tiles == 4) score_tiles<4>(a, q, heads, steps, found);
    else if (tiles == 3) score_tiles<3>(a, q, heads, steps, found);
    else if (tiles == 2) score_tiles<2>(a, q, heads, steps, found);
    else score_tiles<1>(a, q, heads, steps, found);
    for (int64_t i = 0; i < tiles; i++) {
      vf key[16];
      SGL_EACH(j, 16) key[j] = load(found + i * 256 + j * 16);
      transpose(key, S + t + i * 16, kLine);
    }
  }
}

// acc [R][U * 32 elements from e on] of one head over the first n keys.
template <int U>
static void values_few_bf16(const AttnCall& c, const CachedRows& keys, int64_t head, int64_t R, int64_t n, int64_t e, const bf16* P, bf16* vt,
                            float* acc) {
  _tile_zero(0);
  _tile_zero(1);
  if (U > 1) _tile_zero(2);
  if (U > 1) _tile_zero(3);
  const int64_t at = head * c.head_stride_v + e, left = c.dim_v - e;
  for (int64_t b = 0; b < n; b += 32, vt += (b / 32 & 1 ? 4 : -4) * kTile) {
    const int64_t some = n - b < 32 ? n - b : 32;
    for (int64_t i = 0; i < 32; i += 2)
      SGL_EACH(u, U) {
        const __m512i x = i < some ? row32<KV_BF16>(keys.v[b + i] + at + u * 32, 0, left - u * 32, 1.f) : _mm512_setzero_si512();
        const __m512i y = i + 1 < some ? row32<KV_BF16>(keys.v[b + i + 1] + at + u * 32, 0, left - u * 32, 1.f) : _mm512_setzero_si512();
        _mm512_store_si512(vt + 2 * u * kTile + i * 16, _mm512_unpacklo_epi16(x, y));
        _mm512_store_si512(vt + (2 * u + 1) * kTile + i * 16, _mm512_unpackhi_epi16(x, y));
      }
    _tile_loadd(4, P + b, kPLine * 2);
    _tile_loadd(5, vt, 64);
    _tile_dpbf16ps(0, 4, 5);
    _tile_loadd(6, vt + kTile, 64);
    _tile_dpbf16ps(1, 4, 6);
    if (U > 1) {
      _tile_loadd(5, vt + 2 * kTile, 64);
      _tile_dpbf16ps(2, 4, 5);
      _tile_loadd(6, vt + 3 * kTile, 64);
      _tile_dpbf16ps(3, 4, 6);
    }
  }
  alignas(64) float sums[U * 2 * 256];
  _tile_stored(0, sums, 64);
  _tile_stored(1, sums + 256, 64);
  if (U > 1) _tile_stored(2, sums + 512, 64);
  if (U > 1) _tile_stored(3, sums + 768, 64);
  for (int64_t r = 0; r < R; r++, acc += c.dim_v)
    for (int u = 0; u < U; u++) {
      const vf low = load(sums + u * 512 + r * 16), high = load(sums + u * 512 + 256 + r * 16);
      store(acc + e + u * 32, __builtin_shufflevector(low, high, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23));
      if (left - u * 32 >= 32)
        store(acc + e + u * 32 + 16, __builtin_shufflevector(low, high, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31));
    }
}

// See AttnCall: rows of c.kv_heads heads, head by head; c.scratch is not used.
static void attend_few_bf16(const AttnCall& c) {
  const int64_t seen = c.row_pos[c.rows - 1] + 1, n = (seen < c.key_end ? seen : c.key_end) - c.key_begin;
  if (n <= 0) return;
  const int64_t R = c.rows / c.kv_heads, steps = (c.dim + 31) / 32, fit = kAttnFewRows / R, most = fit < c.kv_heads ? fit : c.kv_heads;
  CachedRows keys;
  CachedRows::find(c, c.key_begin, n, keys);
  bf16* q = static_cast<bf16*>(thread_scratch(0, (most * steps * kTile + kKeysAtOnce * most * steps * 32 + 8 * kTile + 32 * kPLine) * 2 + 16 * kLine * 4));
  bf16 *copies = q + most * steps * kTile, *vt = copies + kKeysAtOnce * most * steps * 32, *P = vt + 8 * kTile;
  float* S = reinterpret_cast<float*>(P + 32 * kPLine);
  whole_tiles();
  for (int64_t h0 = 0; h0 < c.kv_heads; h0 += most) {
    const int64_t heads = c.kv_heads - h0 < most ? c.kv_heads - h0 : most;
    query_tiles(c.q + h0 * R * c.dim, heads, R, c.dim, steps, q);
    scores_few_bf16(c, keys, h0, heads, n, q, copies, S);
    for (int64_t r = 0; r < heads * R; r++) {
      const int64_t row = h0 * R + r, pos = c.row_pos[row], first = c.window > 0 ? pos - c.window + 1 - c.key_begin : 0;
      const int64_t last = pos + 1 < c.key_end ? pos + 1 - c.key_begin : c.key_end - c.key_begin;
      weigh_row(S + r * kLine, P + r * kPLine, first > 0 ? first : 0, last, (n + 31) / 32 * 32, c.softcap, c.m + row, c.l + row);
    }
    for (int64_t h = 0; h < heads; h++) {
      float* acc = c.acc + (h0 + h) * R * c.dim_v;
      const bf16* weights = P + h * R * kPLine;
      int64_t e = 0;
      for (; e + 32 < c.dim_v; e += 64) values_few_bf16<2>(c, keys, h0 + h, R, n, e, weights, vt, acc);
      if (e < c.dim_v) values_few_bf16<1>(c, keys, h0 + h, R, n, e, weights, vt, acc);
    }
  }
  _tile_release();
}

}  // namespace SGL_NS
