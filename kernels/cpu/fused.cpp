// Drivers of the row operations: norms, q/k norm + rotary embedding + KV write in one pass, gated activations, addition.
#include "api.h"
#include "kernels.h"
#include "pool.h"

namespace {

// Rows are cheap: below this many elements one thread is faster than waking another.
constexpr int64_t kInline = 16384;

template <class F>
void over_rows(int64_t rows, int64_t elements_per_row, F&& f) {
  if (rows * elements_per_row <= kInline) {
    for (int64_t i = 0; i < rows; i++) f(i);
    return;
  }
  int64_t per = kInline / 2 / (elements_per_row + 1);
  const int64_t fair = rows / (4 * pool_threads()) + 1;
  if (per > fair) per = fair;
  if (per < 1) per = 1;
  parallel_for((rows + per - 1) / per, [&](int64_t c) {
    for (int64_t i = c * per; i < (c + 1) * per && i < rows; i++) f(i);
  });
}

struct NormArgs { const float* x; int64_t ldx; float* residual; int64_t ldr; const float* w; float* out; int64_t ldo, T, n; float eps, offset; };

void rms_norm_run(const NormArgs& a) {
  const Kernels* k = sgl_kernels();
  over_rows(a.T, a.n, [&](int64_t t) {
    float* r = a.residual ? a.residual + t * a.ldr : nullptr;
    k->rms_norm(a.x + t * a.ldx, r, r, a.w, a.out + t * a.ldo, a.n, a.eps, a.offset);
  });
}

struct RopeArgs {
  float *q, *k; const float* v;
  int64_t ldq, ldk, ldv;
  const float* cos_sin; int64_t rot_dim;
  const void* positions; const void* slots;
  const float *q_norm, *k_norm;
  void *k_cache, *v_cache;
  int64_t slot_stride_k, slot_stride_v, head_stride_k, head_stride_v;
  float *k_scale, *v_scale;
  int64_t T, heads, kv_heads, dim, dim_v, max_pos;
  int32_t interleaved, positions64, slots64, kv_type;
  float eps, norm_offset;
};

int64_t index_at(const void* p, int32_t is64, int64_t i) { return is64 ? static_cast<const int64_t*>(p)[i] : static_cast<const int32_t*>(p)[i]; }

void store_heads(const Kernels* k, const float* x, int64_t heads, int64_t dim, void* cache, int64_t slot, int64_t slot_stride,
                 int64_t head_stride, float* scale, KvType kv) {
  const int64_t size = kv == KV_F32 ? 4 : kv <= KV_BF16 ? 2 : 1;
  for (int64_t h = 0; h < heads; h++) {
    void* dst = static_cast<uint8_t*>(cache) + (slot * slot_stride + h * head_stride) * size;
    float ignored, *out = kv == KV_INT8 ? scale + slot * heads + h : &ignored;
    k->kv_store(x + h * dim, dst, out, kv == KV_F8E4M3 && scale ? *scale : 1.f, dim, kv);
  }
}

void rope_kv_run(const RopeArgs& a) {
  const Kernels* k = sgl_kernels();
  over_rows(a.T, 2 * (a.heads + 2 * a.kv_heads) * a.dim, [&](int64_t t) {
    const float* cs = nullptr;
    if (a.cos_sin) {
      int64_t pos = index_at(a.positions, a.positions64, t);
      pos = pos < 0 ? 0 : pos >= a.max_pos ? a.max_pos - 1 : pos;
      cs = a.cos_sin + pos * a.rot_dim;
    }
    float *q = a.q ? a.q + t * a.ldq : nullptr, *key = a.k ? a.k + t * a.ldk : nullptr;
    for (int64_t h = 0; q && h < a.heads; h++) {
      if (a.q_norm) k->rms_norm(q + h * a.dim, nullptr, nullptr, a.q_norm, q + h * a.dim, a.dim, a.eps, a.norm_offset);
      if (cs) k->rope(q + h * a.dim, cs, cs + a.rot_dim / 2, a.rot_dim, a.interleaved);
    }
    for (int64_t h = 0; key && h < a.kv_heads; h++) {
      if (a.k_norm) k->rms_norm(key + h * a.dim, nullptr, nullptr, a.k_norm, key + h * a.dim, a.dim, a.eps, a.norm_offset);
      if (cs) k->rope(key + h * a.dim, cs, cs + a.rot_dim / 2, a.rot_dim, a.interleaved);
    }
    if (!a.slots) return;
    const int64_t slot = index_at(a.slots, a.slots64, t);
    if (slot < 0) return;  // a padding row of a recorded bucket
    if (key) store_heads(k, key, a.kv_heads, a.dim, a.k_cache, slot, a.slot_stride_k, a.head_stride_k, a.k_scale, KvType(a.kv_type));
    if (a.v) store_heads(k, a.v + t * a.ldv, a.kv_heads, a.dim_v, a.v_cache, slot, a.slot_stride_v, a.head_stride_v, a.v_scale, KvType(a.kv_type));
  });
}

struct ActArgs { const float *gate, *up; float* out; int64_t ldg, ldu, ldo, T, n; int32_t kind, pad; };

void act_mul_run(const ActArgs& a) {
  const Kernels* k = sgl_kernels();
  const int64_t cols = a.T == 1 && a.n > 8192 ? 2048 : a.n;  // one long row is cut too
  const int64_t parts = (a.n + cols - 1) / cols;
  over_rows(a.T * parts, 4 * cols, [&](int64_t i) {
    const int64_t t = i / parts, c = i % parts * cols, n = c + cols < a.n ? cols : a.n - c;
    k->act_mul(a.gate + t * a.ldg + c, a.up ? a.up + t * a.ldu + c : nullptr, a.out + t * a.ldo + c, n, a.kind);
  });
}

struct AddArgs { float* x; const float* y; int64_t ldx, ldy, T, n; };

void add_run(const AddArgs& a) {
  const Kernels* k = sgl_kernels();
  over_rows(a.T, a.n, [&](int64_t t) { k->add(a.x + t * a.ldx, a.y + t * a.ldy, a.n); });
}

struct GatherArgs { const float* x; float* out; const void* rows; int64_t ldx, ldo, R, n; int32_t rows64, pad; };

void gather_rows_run(const GatherArgs& a) {
  for (int64_t i = 0; i < a.R; i++) memcpy(a.out + i * a.ldo, a.x + index_at(a.rows, a.rows64, i) * a.ldx, size_t(a.n) * 4);
}

}  // namespace

// residual given: residual += x, out = norm(residual); else out = norm(x). weight null: no weight.
SGL_API int sgl_rms_norm(const float* x, int64_t ldx, float* residual, int64_t ldr, const float* weight, float* out, int64_t ldo,
                         int64_t T, int64_t n, float eps, float weight_offset) {
  if (n < 1) return fail("rms_norm: rows of %lld elements", (long long)n);
  NormArgs a{x, ldx, residual, ldr, weight, out, ldo, T, n, eps, weight_offset};
  return SGL_SUBMIT(NormArgs, rms_norm_run, a);
}

// q and k are changed in place: per-head norm (weights given), rotary embedding (cos_sin given), then k and v go to the cache
// slots (slots given; a negative slot is skipped). Any of q, k, v may be null.
SGL_API int sgl_rope_kv(float* q, int64_t ldq, float* k, int64_t ldk, const float* v, int64_t ldv, int64_t T, int64_t heads,
                        int64_t kv_heads, int64_t dim, int64_t dim_v, const void* positions, int32_t positions64,
                        const float* cos_sin, int64_t max_pos, int64_t rot_dim, int32_t interleaved, const float* q_norm,
                        const float* k_norm, float eps, float norm_offset, const void* slots, int32_t slots64, void* k_cache,
                        void* v_cache, int32_t kv_type, int64_t slot_stride_k, int64_t slot_stride_v, int64_t head_stride_k,
                        int64_t head_stride_v, float* k_scale, float* v_scale) {
  if (cos_sin && (rot_dim < 2 || rot_dim % 2 || rot_dim > dim)) return fail("rope: %lld rotated of %lld elements", (long long)rot_dim, (long long)dim);
  if (cos_sin && max_pos < 1) return fail("rope: the table has %lld positions", (long long)max_pos);
  if (slots && (kv_type < 0 || kv_type > KV_INT8)) return fail("kv write: kv type %d is unknown", kv_type);
  if (slots && kv_type == KV_INT8 && (!k_scale || !v_scale)) return fail("kv write: an int8 cache needs k_scale and v_scale");
  RopeArgs a{q, k, v, ldq, ldk, ldv, cos_sin, rot_dim, positions, slots, q_norm, k_norm, k_cache, v_cache, slot_stride_k,
             slot_stride_v, head_stride_k, head_stride_v, k_scale, v_scale, T, heads, kv_heads, dim, dim_v, max_pos, interleaved,
             positions64, slots64, kv_type, eps, norm_offset};
  return SGL_SUBMIT(RopeArgs, rope_kv_run, a);
}

// out = act(gate) * up; up null: out = act(gate). kind: 0 silu, 1 gelu (erf), 2 gelu (tanh).
SGL_API int sgl_act_mul(const float* gate, int64_t ldg, const float* up, int64_t ldu, float* out, int64_t ldo, int64_t T, int64_t n,
                        int32_t kind) {
  if (kind < 0 || kind > 2) return fail("act_mul: activation %d is unknown", kind);
  ActArgs a{gate, up, out, ldg, ldu, ldo, T, n, kind, 0};
  return SGL_SUBMIT(ActArgs, act_mul_run, a);
}

SGL_API int sgl_add(float* x, int64_t ldx, const float* y, int64_t ldy, int64_t T, int64_t n) {
  AddArgs a{x, y, ldx, ldy, T, n};
  return SGL_SUBMIT(AddArgs, add_run, a);
}

// out[i] = x[rows[i]]: the rows that are sampled.
SGL_API int sgl_gather_rows(const float* x, int64_t ldx, const void* rows, int32_t rows64, int64_t R, float* out, int64_t ldo, int64_t n) {
  GatherArgs a{x, out, rows, ldx, ldo, R, n, rows64, 0};
  return SGL_SUBMIT(GatherArgs, gather_rows_run, a);
}
