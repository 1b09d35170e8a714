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
  for (int m = 0; m < M; m++) {
    float* o = c.out + (t0 + m) * c.ldo;
    if (c.bias)
      for (int v = 0; v < NV; v++) acc[m][v] += load(c.bias + v * VL);
    if (c.cols == 16) {
      for (int v = 0; v < NV; v++) store(o + v * VL, c.accumulate ? load(o + v * VL) + acc[m][v] : acc[m][v]);
    } else {
      float tmp[16];
      for (int v = 0; v < NV; v++) store(tmp + v * VL, acc[m][v]);
      for (int i = 0; i < c.cols; i++) o[i] = c.accumulate ? o[i] + tmp[i] : tmp[i];
    }
  }
}

template <class W, int M>
static void float_rows(const TileCall& c, int64_t t0) {
  vf acc[M][NV];
  for (int m = 0; m < M; m++)
    for (int v = 0; v < NV; v++) acc[m][v] = vf{};
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
    for (int v = 0; v < NV; v++)
      sc[v] = scaled ? load(reinterpret_cast<const float*>(c.tile + h->d_off + g * h->d_stride) + v * VL) : splat(1.f);
    for (int64_t k = k0; k < k1; k++, w += 16 * W::B) {
      if (M == 1) __builtin_prefetch(w + 1024);
      vf wv[NV];
      for (int v = 0; v < NV; v++) {
        wv[v] = W::at(w + v * VL * W::B);
        if (scaled) wv[v] *= sc[v];
      }
#pragma GCC unroll 16
      for (int m = 0; m < M; m++) {
        const vf b = splat(x[m * ldx + k]);
        for (int v = 0; v < NV; v++) acc[m][v] = fma(b, wv[v], acc[m][v]);
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

// out[rows][n16 * 16] (+)= x[rows][K] * w, w given as f32 tiles of [K][16] one after another: attention's two products.
template <int M, bool ACC>
SGL_INLINE void panel_rows(const float* w, int64_t K, const float* x, int64_t ldx, float* out, int64_t ldo) {
  vf acc[M][NV];
  for (int m = 0; m < M; m++)
    for (int v = 0; v < NV; v++) acc[m][v] = ACC ? load(out + m * ldo + v * VL) : vf{};
  for (int64_t k = 0; k < K; k++) {
    vf wv[NV];
    for (int v = 0; v < NV; v++) wv[v] = load(w + k * 16 + v * VL);
#pragma GCC unroll 16
    for (int m = 0; m < M; m++) {
      const vf b = splat(x[m * ldx + k]);
      for (int v = 0; v < NV; v++) acc[m][v] = fma(b, wv[v], acc[m][v]);
    }
  }
  for (int m = 0; m < M; m++)
    for (int v = 0; v < NV; v++) store(out + m * ldo + v * VL, acc[m][v]);
}

template <bool ACC>
static void panel(const float* w, int64_t n16, int64_t K, const float* x, int64_t ldx, int64_t rows, float* out, int64_t ldo) {
  for (int64_t n = 0; n < n16; n++, w += K * 16) {
    float* o = out + n * 16;
    int64_t t = 0;
    for (; t + kFloatM <= rows; t += kFloatM) panel_rows<kFloatM, ACC>(w, K, x + t * ldx, ldx, o + t * ldo, ldo);
    for (; t + 3 <= rows; t += 3) panel_rows<3, ACC>(w, K, x + t * ldx, ldx, o + t * ldo, ldo);
    for (; t < rows; t++) panel_rows<1, ACC>(w, K, x + t * ldx, ldx, o + t * ldo, ldo);
  }
}

}  // namespace SGL_NS
