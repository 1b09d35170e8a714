// bf16 products on AMX: out[t][n] = sum_k bf16(x[t][k]) * bf16(w[k][n]), summed in f32 inside the tiles over the whole K.
//
//   A  16 rows x 32 inputs, 1 KiB:   [row][32]            activations, rounded once per call
//   B  32 inputs x 16 outputs, 1 KiB: [pair][output][2]   a packed weight tile, scaled and rounded once per call and row chunk
//   C  16 x 16 f32; a step is 2 x 2 of them: 4 loads of 1 KiB for 4 products of 16 cycles
//
// tdpbf16ps adds the even and the odd inputs of 32 in order, then both to C: a row's sum depends on its own inputs only, so its
// bits are the same in every batch. Subnormal inputs count as zero.
#pragma once
#include "fused.h"
#include "linear_int.h"

void* thread_scratch(int slot, int64_t bytes);  // pool.cpp

namespace SGL_NS {

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t column_bytes[16] = {};
  uint8_t rows[16] = {};
};

SGL_INLINE void whole_tiles() {
  TileConfig config;
  for (int t = 0; t < 8; t++) config.column_bytes[t] = 64, config.rows[t] = 16;
  _tile_loadconfig(&config);
}

typedef uint16_t bf16;
constexpr int64_t kTile = 512;  // bf16 numbers

SGL_INLINE __m512i two_bf16(vf low, vf high) { return (__m512i)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low); }
// Lane i of low and high as the pair i.
SGL_INLINE __m512i pair_bf16(vf low, vf high) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19,
                                         3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, two_bf16(low, high));
}

// x [rows <= 16][n] as A tiles [steps][16][32]; what lies beyond is zero.
static void rows_bf16(const float* x, int64_t ldx, int64_t rows, int64_t n, int64_t steps, bf16* dst) {
  for (int64_t r = 0; r < 16; r++, x += ldx) {
    bf16* to = dst + r * 32;
    if (r >= rows) {
      for (int64_t s = 0; s < steps; s++) _mm512_store_si512(to + s * kTile, _mm512_setzero_si512());
      continue;
    }
    int64_t s = 0;
    for (; s * 32 + 32 <= n; s++) _mm512_store_si512(to + s * kTile, two_bf16(load(x + s * 32), load(x + s * 32 + 16)));
    for (; s < steps; s++) {
      const int64_t left = n - s * 32 > 0 ? n - s * 32 : 0;
      const __mmask16 low = left >= 16 ? 0xffff : __mmask16((1u << left) - 1);
      const __mmask16 high = left > 16 ? __mmask16((1u << (left - 16)) - 1) : 0;
      _mm512_store_si512(to + s * kTile, two_bf16((vf)_mm512_maskz_loadu_ps(low, x + s * 32), (vf)_mm512_maskz_loadu_ps(high, x + s * 32 + 16)));
    }
  }
}

// Four inputs (bytes or nibbles) of each of 16 outputs, scaled: two rows of a B tile. The code becomes the mantissa of a number in
// [1, 2): d and m are made for that. Rounded to nearest, ties away from zero (two additions instead of bf16 conversions and a
// permutation: this loop is what a product with few rows costs).
template <int BITS>
SGL_INLINE void spread4(__m512i w, int shift, vf d, vf m, bf16* to) {
  const __m512i mask = _mm512_set1_epi32(((1 << BITS) - 1) << (23 - BITS)), one = _mm512_set1_epi32(0x3f800000);
  const __m512i half = _mm512_set1_epi32(0x8000), top = _mm512_set1_epi32(int(0xffff0000));
  __m512i v[4];
  SGL_EACH(i, 4) {
    const int left = 23 - BITS - (i * 8 + shift);
    const __m512i at = left > 0 ? _mm512_slli_epi32(w, unsigned(left)) : _mm512_srli_epi32(w, unsigned(-left));
    const vf x = (vf)_mm512_ternarylogic_epi32(at, mask, one, 0xea);  // (at & mask) | one
    v[i] = _mm512_add_epi32((__m512i)fma(x, d, m), half);
  }
  SGL_EACH(i, 2)
    _mm512_store_si512(to + i * 32, _mm512_ternarylogic_epi32(v[2 * i + 1], top, _mm512_srli_epi32(v[2 * i], 16), 0xea));
}

template <bool F32>
SGL_INLINE vf scale16(const uint8_t* p) {
  return F32 ? load(reinterpret_cast<const float*>(p)) : load_f16(reinterpret_cast<const uint16_t*>(p));
}

template <int BITS, int NS, bool F32>
static void spread_codes(const PackedHeader* h, const uint8_t* tile, bf16* dst) {
  for (int64_t b = 0; b < h->blocks; b++, dst += kTile) {
    const uint8_t *p = tile + b * h->block_bytes, *dp = tile + h->d_off + (b >> h->gshift) * h->d_stride;
    const uint8_t* mp = tile + h->m_off + (b >> h->gshift) * h->m_stride;
    __builtin_prefetch(p + 2048);
    vf d[2], m[2];
    SGL_EACH(i, NS) {
      d[i] = scale16<F32>(dp + i * (F32 ? 64 : 32));
      m[i] = h->has_min ? scale16<F32>(mp + i * (F32 ? 64 : 32)) : d[i] * -float(h->zero);
      d[i] *= float(1 << BITS);
      m[i] -= d[i];
    }
    if (BITS == 4) {
      SGL_EACH(j, 4) {
        const __m512i w = _mm512_loadu_si512(p + j * 64);
        spread4<4>(w, 0, d[0], m[0], dst + j * 64);
        spread4<4>(w, 4, d[NS - 1], m[NS - 1], dst + (j + 4) * 64);
      }
    } else {
      SGL_EACH(g, 8) spread4<8>(_mm512_loadu_si512(p + g * 64), 0, d[g * NS / 8], m[g * NS / 8], dst + g * 64);
    }
  }
}

template <class W>
static void spread_floats(const PackedHeader* h, const uint8_t* tile, bf16* dst) {
  const int64_t bytes = 16 * W::B;
  for (int64_t k = 0; k < h->k_pad; k += 2, dst += 32) {
    const vf d = W::B == 1 ? load(reinterpret_cast<const float*>(tile + h->d_off + ((k / 32) >> h->gshift) * h->d_stride)) : splat(1.f);
    vf v[2];
    SGL_EACH(i, 2) v[i] = k + i < h->n_in ? W::at(tile + (k + i) * bytes) : vf{};
    if (W::B == 1) v[0] *= d, v[1] *= d;
    _mm512_store_si512(dst, pair_bf16(v[0], v[1]));
  }
}

template <int BITS>
static void spread_int(const PackedHeader* h, const uint8_t* tile, bf16* dst) {
  if (h->sub == 2) return h->scale_f32 ? spread_codes<BITS, 2, true>(h, tile, dst) : spread_codes<BITS, 2, false>(h, tile, dst);
  h->scale_f32 ? spread_codes<BITS, 1, true>(h, tile, dst) : spread_codes<BITS, 1, false>(h, tile, dst);
}

// One packed tile as B tiles [k_pad / 32][16 pairs][16 outputs][2].
static void spread_bf16(const PackedHeader* h, const uint8_t* tile, bf16* dst) {
  if (h->is_int) return h->code_bits == 4 ? spread_int<4>(h, tile, dst) : spread_int<8>(h, tile, dst);
  switch (h->format) {
    case SGL_F16: return spread_floats<WF16>(h, tile, dst);
    case SGL_BF16: return spread_floats<WBF16>(h, tile, dst);
    case SGL_F8E4M3: return spread_floats<WF8>(h, tile, dst);
    default: return spread_floats<WF32>(h, tile, dst);
  }
}

// C tiles 0..3 = M x N tiles of A . B over `steps`. a_row and b_col: from one tile of rows (outputs) to the next, in numbers;
// a_line, b_line: bytes of a line in a tile; a_step, b_step: from one k step to the next.
struct TileWalk { int64_t a_row, a_line, a_step, b_col, b_line, b_step; };
template <int M, int N>
SGL_INLINE void tile_product(const bf16* a, const bf16* b, int64_t steps, const TileWalk& w) {
  _tile_zero(0);
  if (N > 1) _tile_zero(1);
  if (M > 1) _tile_zero(2);
  if (M > 1 && N > 1) _tile_zero(3);
  for (int64_t s = 0; s < steps; s++, a += w.a_step, b += w.b_step) {
    _tile_loadd(6, b, w.b_line);
    _tile_loadd(4, a, w.a_line);
    _tile_dpbf16ps(0, 4, 6);
    if (N > 1) {
      _tile_loadd(7, b + w.b_col, w.b_line);
      _tile_dpbf16ps(1, 4, 7);
    }
    if (M > 1) {
      _tile_loadd(5, a + w.a_row, w.a_line);
      _tile_dpbf16ps(2, 5, 6);
      if (N > 1) _tile_dpbf16ps(3, 5, 7);
    }
  }
}
// Stores them at out [M * 16][ldo].
template <int M, int N>
SGL_INLINE void tile_store(float* out, int64_t ldo) {
  _tile_stored(0, out, ldo * 4);
  if (N > 1) _tile_stored(1, out + 16, ldo * 4);
  if (M > 1) _tile_stored(2, out + 16 * ldo, ldo * 4);
  if (M > 1 && N > 1) _tile_stored(3, out + 16 * ldo + 16, ldo * 4);
}

template <int M, int N>
static void panel_block(const PanelCall& c, int64_t row, int64_t tile) {
  const int64_t k = c.steps * kTile;
  tile_product<M, N>(c.a + row / 16 * k, c.b + tile * k, c.steps, {k, 64, kTile, k, 64, kTile});
  const int64_t rows = c.rows - row < M * 16 ? c.rows - row : M * 16, cols = c.cols - tile * 16 < N * 16 ? c.cols - tile * 16 : N * 16;
  float* out = c.out + row * c.ldo + tile * 16;
  if (rows == M * 16 && cols == N * 16 && !c.bias && !c.accumulate) return tile_store<M, N>(out, c.ldo);
  alignas(64) float sums[M * 16 * N * 16];
  tile_store<M, N>(sums, N * 16);
  SGL_EACH(v, N) {
    const __mmask16 some = cols - v * 16 >= 16 ? 0xffff : __mmask16((1u << (cols - v * 16)) - 1);
    const vf bias = c.bias ? (vf)_mm512_maskz_loadu_ps(some, c.bias + (tile + v) * 16) : vf{};
    for (int64_t r = 0; r < rows; r++) {
      float* o = out + r * c.ldo + v * 16;
      vf x = load(sums + r * N * 16 + v * 16);
      if (c.bias) x += bias;
      if (c.accumulate) x += (vf)_mm512_maskz_loadu_ps(some, o);
      _mm512_mask_storeu_ps(o, some, (__m512)x);
    }
  }
}

// A gate tile and an up tile side by side: their activated product to 16 columns.
template <int M>
static void panel_gated(const PanelCall& c, int64_t row, int64_t tile) {
  const int64_t k = c.steps * kTile;
  tile_product<M, 2>(c.a + row / 16 * k, c.b + tile * k, c.steps, {k, 64, kTile, k, 64, kTile});
  const int64_t rows = c.rows - row < M * 16 ? c.rows - row : M * 16, column = tile / 2 * 16, cols = c.cols - column;
  const __mmask16 some = cols >= 16 ? 0xffff : __mmask16((1u << cols) - 1);
  alignas(64) float sums[M * 16 * 32];
  tile_store<M, 2>(sums, 32);
  const vf gate = c.bias ? (vf)_mm512_maskz_loadu_ps(some, c.bias + column) : vf{};
  const vf up = c.bias_up ? (vf)_mm512_maskz_loadu_ps(some, c.bias_up + column) : vf{};
  float* out = c.out + row * c.ldo + column;
  for (int64_t r = 0; r < rows; r++)
    _mm512_mask_storeu_ps(out + r * c.ldo, some, (__m512)(act_v(load(sums + r * 32) + gate, c.act) * (load(sums + r * 32 + 16) + up)));
}

template <int M>
static void panel_rows_bf16(const PanelCall& c, int64_t row) {
  int64_t t = 0;
  if (c.act >= 0) {
    for (; t < c.tiles; t += 2) panel_gated<M>(c, row, t);
    return;
  }
  for (; t + 2 <= c.tiles; t += 2) panel_block<M, 2>(c, row, t);
  if (t < c.tiles) panel_block<M, 1>(c, row, t);
}

static void panel_bf16(const PanelCall& c) {
  whole_tiles();
  int64_t row = 0;
  for (; row + 16 < c.rows; row += 32) panel_rows_bf16<2>(c, row);
  if (row < c.rows) panel_rows_bf16<1>(c, row);
  _tile_release();
}

}  // namespace SGL_NS
