// Float tiles: out[t][16] = sum_k x[t][k] * w[k][16], one fused multiply-add chain per output in the order of k, whatever T
// is (so a token's result does not depend on the batch). Registers: M x NV accumulators + NV weights + 1 broadcast:
// 6 x 2 + 2 + 1 = 15 of 16 on AVX2; 12 + 1 of 32 on AVX-512, where the broadcast is part of the multiply-add.
#pragma once
#include "simd.h"

namespace SGL_NS {

struct WF32 { static constexpr int B = 4; SGL_INLINE vf at(const uint8_t* p) { return load(reinterpret_cast<const float*>(p)); } };
struct WF16 { static constexpr int B = 2; SGL_INLINE vf at(const uint8_t* p) { return load_f16(reinterpret_cast<const uint16_t*>(p)); } };
struct WBF16 { static constexpr int B = 2; SGL_INLINE vf at(const uint8_t* p) { return load_bf16(reinterpret_cast<const uint16_t*>(p)); } };
struct WF8 { static constexpr int B = 1; SGL_INLINE vf at(const uint8_t* p) { return load_f8(p); } };

#if SGL_VL == 16
constexpr int kFloatM = 12;
#else
constexpr int kFloatM = 6;
#endif

// Writes M finished rows of 16 columns, with bias, accumulation and a narrow last tile.
template <int M>
SGL_INLINE void store_rows(const TileCall& c, int64_t t0, vf (&acc)[M][NV]) {
  SGL_EACH(m, M) {
    float* o = c.out + (t0 + m) * c.ldo;
    if (c.bias)
      SGL_EACH(v, NV) acc[m][v] += load(c.bias + v * VL);
    if (c.cols == 16) {
      SGL_EACH(v, NV) store(o + v * VL, c.accumulate ? load(o + v * VL) + acc[m][v] : acc[m][v]);
    } else {
      float tmp[16];
      SGL_EACH(v, NV) store(tmp + v * VL, acc[m][v]);
      for (int i = 0; i < c.cols; i++) o[i] = c.accumulate ? o[i] + tmp[i] : tmp[i];
    }
  }
}

template <class W, int M>
static void float_rows(const TileCall& c, int64_t t0) {
  vf acc[M][NV];
  SGL_EACH(m, M)
    SGL_EACH(v, NV) acc[m][v] = vf{};
  const float* x = c.x + t0 * c.ldx;
  const int64_t ldx = c.ldx;
  const PackedHeader* h = c.h;
  const bool scaled = W::B == 1;
  const int64_t n = h->n_in;
  // f8: scales come per group of inputs and are multiplied into the weight (exact: power-of-two shape aside, one rounding).
  const int64_t step = scaled ? (int64_t(32) << (h->gshift < 40 ? h->gshift : 40)) : n;
  const uint8_t* w = c.tile;
  for (int64_t k0 = 0, g = 0; k0 < n; k0 += step, g++) {
    const int64_t k1 = k0 + step < n ? k0 + step : n;
    vf sc[NV];
    SGL_EACH(v, NV)
      sc[v] = scaled ? load(reinterpret_cast<const float*>(c.tile + h->d_off + g * h->d_stride) + v * VL) : splat(1.f);
    for (int64_t k = k0; k < k1; k++, w += 16 * W::B) {
      if (M == 1) __builtin_prefetch(w + 1024);
      vf wv[NV];
      SGL_EACH(v, NV) {
        wv[v] = W::at(w + v * VL * W::B);
        if (scaled) wv[v] *= sc[v];
      }
      SGL_EACH(m, M) {
        const vf b = splat(x[m * ldx + k]);
        SGL_EACH(v, NV) acc[m][v] = fma(b, wv[v], acc[m][v]);
      }
    }
  }
  store_rows<M>(c, t0, acc);
}

template <class W>
static void float_tile(const TileCall& c) {
  int64_t t = 0;
  for (; t + kFloatM <= c.T; t += kFloatM) float_rows<W, kFloatM>(c, t);
  for (; t + 4 <= c.T; t += 4) float_rows<W, 4>(c, t);
  for (; t + 2 <= c.T; t += 2) float_rows<W, 2>(c, t);
  for (; t < c.T; t++) float_rows<W, 1>(c, t);
}

static void tile_float(const TileCall& c) {
  switch (c.h->format) {
    case SGL_F16: return float_tile<WF16>(c);
    case SGL_BF16: return float_tile<WBF16>(c);
    case SGL_F8E4M3: return float_tile<WF8>(c);
    default: return float_tile<WF32>(c);
  }
}

// out[rows][columns] (+)= x[rows][K] * w[K][columns], row strides ldx, ldw, ldo: attention's two products over f32 scratch.
// M rows by NC vectors of columns: 6 x 2 or 3 x 4 registers of sums on AVX2 (12 chains keep both multiply-add ports busy through
// a latency of 4), 12 x 2 on AVX-512. However the block is cut, each sum is one chain in the order of k.
template <int M, int NC, bool ACC>
SGL_INLINE void panel_block(const float* w, int64_t ldw, int64_t K, const float* x, int64_t ldx, float* out, int64_t ldo) {
  vf acc[M][NC];
  SGL_EACH(m, M)
    SGL_EACH(v, NC) acc[m][v] = ACC ? load(out + m * ldo + v * VL) : vf{};
  for (int64_t k = 0; k < K; k++) {
    if (M <= 3) {  // few rows: hold their factors, stream the columns
      vf b[M];
      SGL_EACH(m, M) b[m] = splat(x[m * ldx + k]);
      SGL_EACH(v, NC) {
        const vf wv = load(w + k * ldw + v * VL);
        SGL_EACH(m, M) acc[m][v] = fma(b[m], wv, acc[m][v]);
      }
    } else {
      vf wv[NC];
      SGL_EACH(v, NC) wv[v] = load(w + k * ldw + v * VL);
      SGL_EACH(m, M) {
        const vf b = splat(x[m * ldx + k]);
        SGL_EACH(v, NC) acc[m][v] = fma(b, wv[v], acc[m][v]);
      }
    }
  }
  SGL_EACH(m, M)
    SGL_EACH(v, NC) store(out + m * ldo + v * VL, acc[m][v]);
}

template <int M, bool ACC>
static void panel_rows(const float* w, int64_t ldw, int64_t columns, int64_t K, const float* x, int64_t ldx, float* out, int64_t ldo) {
  constexpr int NC = SGL_VL == 16 ? 2 : M <= 3 ? 4 : 2;
  int64_t n = 0;
  for (; n + NC * VL <= columns; n += NC * VL) panel_block<M, NC, ACC>(w + n, ldw, K, x, ldx, out + n, ldo);
  for (; n < columns; n += 16) panel_block<M, NV, ACC>(w + n, ldw, K, x, ldx, out + n, ldo);
}

template <bool ACC>
static void panel(const float* w, int64_t ldw, int64_t columns, int64_t K, const float* x, int64_t ldx, int64_t rows, float* out, int64_t ldo) {
  while (rows > 0) {
    int64_t step;
    if (SGL_VL == 16 && rows >= 12) panel_rows<SGL_VL == 16 ? 12 : 6, ACC>(w, ldw, columns, K, x, ldx, out, ldo), step = 12;
    else if (rows >= 6 && rows != 7 && rows != 8) panel_rows<6, ACC>(w, ldw, columns, K, x, ldx, out, ldo), step = 6;
    else if (rows >= 4) panel_rows<4, ACC>(w, ldw, columns, K, x, ldx, out, ldo), step = 4;
    else if (rows == 3) panel_rows<3, ACC>(w, ldw, columns, K, x, ldx, out, ldo), step = 3;
    else if (rows == 2) panel_rows<2, ACC>(w, ldw, columns, K, x, ldx, out, ldo), step = 2;
    else panel_rows<1, ACC>(w, ldw, columns, K, x, ldx, out, ldo), step = 1;
    x += step * ldx;
    out += step * ldo;
    rows -= step;
  }
}

}  // namespace SGL_NS
