// Row operations around the products: norms, rotary embedding, gated activations, KV conversion, softmax sums, argmax.
#pragma once
#include "simd.h"

namespace SGL_NS {

// residual_out = x + residual_in (if given); out = y / sqrt(mean(y^2) + eps) * (w + w_offset), y the sum or x.
static void rms_norm(const float* x, const float* residual_in, float* residual_out, const float* w, float* out, int64_t n, float eps,
                     float w_offset) {
  vf s0 = vf{}, s1 = vf{};
  float tail = 0.f;
  int64_t i = 0;
  const bool add = residual_in != nullptr;
  float* y = residual_out ? residual_out : out;  // where the sum is kept between the passes
  for (; i + 2 * VL <= n; i += 2 * VL) {
    vf a = load(x + i), b = load(x + i + VL);
    if (add) {
      a += load(residual_in + i);
      b += load(residual_in + i + VL);
      store(y + i, a);
      store(y + i + VL, b);
    }
    s0 = fma(a, a, s0);
    s1 = fma(b, b, s1);
  }
  for (; i < n; i++) {
    float a = x[i];
    if (add) y[i] = a = a + residual_in[i];
    tail += a * a;
  }
  const float mean = (sum(s0 + s1) + tail) / float(n);
  const float r = 1.0f / __builtin_sqrtf(mean + eps);
  const float* src = add ? y : x;
  for (i = 0; i + VL <= n; i += VL) store(out + i, load(src + i) * r * (w ? load(w + i) + w_offset : splat(1.f)));
  for (; i < n; i++) out[i] = src[i] * r * (w ? w[i] + w_offset : 1.f);
}

static void rope(float* x, const float* cos, const float* sin, int64_t rot, int32_t interleaved) {
  const int64_t half = rot / 2;
  if (interleaved) {
    for (int64_t i = 0; i < half; i++) {
      const float a = x[2 * i], b = x[2 * i + 1];
      x[2 * i] = a * cos[i] - b * sin[i];
      x[2 * i + 1] = b * cos[i] + a * sin[i];
    }
    return;
  }
  int64_t i = 0;
  for (; i + VL <= half; i += VL) {
    const vf a = load(x + i), b = load(x + half + i), c = load(cos + i), s = load(sin + i);
    store(x + i, a * c - b * s);
    store(x + half + i, b * c + a * s);
  }
  for (; i < half; i++) {
    const float a = x[i], b = x[half + i];
    x[i] = a * cos[i] - b * sin[i];
    x[half + i] = b * cos[i] + a * sin[i];
  }
}

// erf by Abramowitz and Stegun 7.1.26 (|error| < 1.5e-7).
SGL_INLINE vf erf_v(vf x) {
  const vf a = abs(x);
  const vf t = 1.0f / fma(a, splat(0.3275911f), splat(1.0f));
  vf p = splat(1.061405429f);
  p = fma(p, t, splat(-1.453152027f));
  p = fma(p, t, splat(1.421413741f));
  p = fma(p, t, splat(-0.284496736f));
  p = fma(p, t, splat(0.254829592f));
  const vf y = 1.0f - p * t * exp_v(-(a * a));
  return x < vf{} ? -y : y;
}
SGL_INLINE vf act_v(vf g, int32_t kind) {
  if (kind == ACT_SILU) return g / (1.0f + exp_v(-g));
  if (kind == ACT_GELU) return 0.5f * g * (1.0f + erf_v(g * 0.70710678118654752f));
  return 0.5f * g * (1.0f + tanh_v(0.7978845608028654f * fma(g * g * 0.044715f, g, g)));
}
static void act_mul(const float* gate, const float* up, float* out, int64_t n, int32_t kind) {
  int64_t i = 0;
  for (; i + VL <= n; i += VL) {
    const vf a = act_v(load(gate + i), kind);
    store(out + i, up ? a * load(up + i) : a);
  }
  if (i < n) {
    float g[VL] = {0}, u[VL] = {0}, o[VL];
    for (int64_t j = i; j < n; j++) {
      g[j - i] = gate[j];
      u[j - i] = up ? up[j] : 1.f;
    }
    store(o, act_v(load(g), kind) * load(u));
    for (int64_t j = i; j < n; j++) out[j] = o[j - i];
  }
}

// Writes one row into the cache. int8: *scale_out = max|x| / 127; fp8: values are divided by scale_in.
static void kv_store(const float* x, void* dst, float* scale_out, float scale_in, int64_t n, KvType kv) {
  switch (kv) {
    case KV_F32: memcpy(dst, x, size_t(n) * 4); return;
    case KV_F16: for (int64_t i = 0; i < n; i++) static_cast<uint16_t*>(dst)[i] = to_f16(x[i]); return;
    case KV_BF16: for (int64_t i = 0; i < n; i++) static_cast<uint16_t*>(dst)[i] = to_bf16(x[i]); return;
    case KV_F8E4M3: {
      const float inv = 1.0f / scale_in;
      for (int64_t i = 0; i < n; i++) static_cast<uint8_t*>(dst)[i] = to_f8(x[i] * inv);
      return;
    }
    case KV_INT8: {
      float amax = 0.f;
      for (int64_t i = 0; i < n; i++) {
        const float a = __builtin_fabsf(x[i]);
        amax = a > amax ? a : amax;
      }
      const float inv = amax > 1e-30f ? 127.f / amax : 0.f;
      *scale_out = amax / 127.f;
      for (int64_t i = 0; i < n; i++) static_cast<int8_t*>(dst)[i] = int8_t(bits_of(x[i] * inv + 12582912.f) - 0x4b400000u);
      return;
    }
  }
}

static void add(float* x, const float* y, int64_t n) {
  int64_t i = 0;
  for (; i + VL <= n; i += VL) store(x + i, load(x + i) + load(y + i));
  for (; i < n; i++) x[i] += y[i];
}

// Index of the first maximum; NaN never wins.
static int64_t argmax(const float* x, int64_t n, float* value) {
  const float ninf = -__builtin_inff();
  vf best = splat(ninf);
  int64_t i = 0;
  for (; i + VL <= n; i += VL) best = max(load(x + i), best);
  float m = maximum(best);
  for (; i < n; i++) m = x[i] > m ? x[i] : m;
  *value = m;
  for (i = 0; i + VL <= n; i += VL) {
    const vi hit = load(x + i) == splat(m);
    int32_t any = 0;
    for (int j = 0; j < VL; j++) any |= hit[j];
    if (any) break;
  }
  for (; i < n; i++)
    if (x[i] == m) return i;
  return 0;
}

// probs[i] = exp((x[i] - max) * inv_t); returns their sum (in 64-bit partial sums of 4096, so that 10^5 terms keep their digits).
static float exp_sum(const float* x, int64_t n, float mx, float inv_t, float* probs) {
  double total = 0;
  int64_t i = 0;
  while (i + VL <= n) {
    const int64_t end = i + 4096 < n ? i + 4096 : n;
    vf s = vf{};
    for (; i + VL <= end; i += VL) {
      const vf e = exp_v((load(x + i) - mx) * inv_t);
      if (probs) store(probs + i, e);
      s += e;
    }
    total += double(sum(s));
  }
  for (; i < n; i++) {
    const float e = exp_v(splat((x[i] - mx) * inv_t))[0];
    if (probs) probs[i] = e;
    total += double(e);
  }
  return float(total);
}

}  // namespace SGL_NS
