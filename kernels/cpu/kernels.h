// What the drivers ask of an instruction set: one table of function pointers per ISA, filled by cpu/simd/*.cpp.
#pragma once
#include <stdint.h>

#include "packed.h"

// One tile (16 output rows) times T activation rows. Integer kernels read q, d, s; float kernels read x.
struct TileCall {
  const PackedHeader* h;
  const uint8_t* tile;
  const float* x;      // [T, ldx]
  int64_t ldx;
  const int8_t* q;     // [T, ldq] activations quantized in blocks of 32
  int64_t ldq;
  const float* d;      // [T, ldd] block scales
  int64_t ldd;
  const float* s;      // [T, lds]: d * sum(q) of each block [0, blocks), then of each half block [blocks, 3 * blocks)
  int64_t lds;
  int64_t T;
  float* out;          // [T, ldo], 16 columns from here
  int64_t ldo;
  int32_t cols;        // how many of the 16 columns exist
  int32_t accumulate;  // 1: out += result
  const float* bias;   // 16 values or null
};

// Rows rounded to bf16 times weights spread to bf16 (simd/tiles_bf16.h draws both). Gated: each even B tile is of the gate, the odd one
// behind it of the same outputs of up, and `cols` counts those outputs once.
struct PanelCall {
  const uint16_t* a;   // [ceil(rows / 16)][steps] A tiles
  const uint16_t* b;   // [tiles][steps] B tiles
  int64_t steps;       // of 32 inputs
  int64_t rows, tiles, cols;  // cols: how many outputs exist from the first tile on
  float* out;          // [rows, ldo]
  int64_t ldo;
  const float* bias;   // [cols] or null
  const float* bias_up;
  int32_t accumulate;
  int32_t act;         // an ActKind, or -1
};

enum KvType : int32_t { KV_F32 = 0, KV_F16 = 1, KV_BF16 = 2, KV_F8E4M3 = 3, KV_INT8 = 4 };

// One (request, kv head, block of query rows, segment of keys). Rows are (token, head of the group), token-major. attend_few_bf16 takes
// several kv heads at once, their rows one head after the other.
struct AttnCall {
  const float* q;         // gathered query rows [rows, dim], already scaled by softmax scale
  int64_t rows;
  int64_t dim, dim_v;
  const void* k;          // cache base of this kv head: slot s at k + s * stride_k elements
  const void* v;
  int64_t stride_k, stride_v;
  int64_t kv_heads, head_stride_k, head_stride_v;  // heads of the call, elements from one to the next
  const float* k_scale;   // int8: scale of slot s at k_scale[s * stride_scale]; fp8: one value
  const float* v_scale;
  int64_t stride_scale;
  KvType kv;
  const int32_t* pages;   // this request's page ids
  int64_t page_size;
  int64_t key_begin, key_end;   // positions [begin, end) of this segment
  const int64_t* row_pos;       // [rows] query position: sees keys <= pos
  int64_t window;               // > 0: sees only keys > pos - window
  float softcap;                // > 0: s = cap * tanh(s / cap)
  float* scratch;               // kAttnKeys * (dim + dim_v + rows) floats, 64-byte aligned
  float* m;                     // [rows] running maximum (in and out)
  float* l;                     // [rows] running sum
  float* acc;                   // [rows, dim_v] running numerator
};
constexpr int64_t kAttnKeys = 32;      // keys per inner block
constexpr int64_t kAttnFewRows = 16;   // query rows of attend_few_bf16: the columns of a tile of sums
constexpr int64_t kAttnSegment = 256;  // keys per segment: fixed, so that a row's result never depends on the batch

struct Kernels {
  const char* name;
  // linear
  void (*quantize_row)(const float* x, int64_t k, int64_t k_pad, int8_t* q, float* d, float* s);
  void (*tile_int)(const TileCall& c);
  void (*tile_float)(const TileCall& c);
  void (*dequant_tile)(const PackedHeader* h, const uint8_t* tile, float* dst);  // dst [k_pad][16]
  // bf16 tiles; null where the instruction set has none
  void (*rows_bf16)(const float* x, int64_t ldx, int64_t rows, int64_t n, int64_t steps, uint16_t* dst);  // at most 16 rows as A tiles
  void (*spread_bf16)(const PackedHeader* h, const uint8_t* tile, uint16_t* dst);                         // a packed tile as B tiles
  void (*panel_bf16)(const PanelCall& c);
  // attention
  void (*attend_segment)(const AttnCall& c);
  void (*attend_segment_bf16)(const AttnCall& c);  // q scaled by log2(e) too; null where the instruction set has no bf16 tiles
  void (*attend_few_bf16)(const AttnCall& c);      // the same bits for at most 16 rows a head over a bf16 cache
  void (*attend_merge)(const float* m, const float* l, const float* acc, int64_t rows, int64_t dim, float* M, float* L, float* A);
  // fused, one row each
  void (*rms_norm)(const float* x, const float* residual_in, float* residual_out, const float* w, float* out, int64_t n, float eps,
                   float w_offset);
  void (*rope)(float* x, const float* cos, const float* sin, int64_t rot_dim, int32_t interleaved);
  void (*act_mul)(const float* gate, const float* up, float* out, int64_t n, int32_t kind);
  void (*kv_store)(const float* x, void* dst, float* scale_out, float scale_in, int64_t n, KvType kv);
  void (*add)(float* x, const float* y, int64_t n);
  // sampling, one row each
  int64_t (*argmax)(const float* x, int64_t n, float* value);
  float (*exp_sum)(const float* x, int64_t n, float max, float inv_t, float* probs);  // probs may be null; returns the sum
};

enum ActKind : int32_t { ACT_SILU = 0, ACT_GELU = 1, ACT_GELU_TANH = 2 };

const Kernels* sgl_kernels();                 // the table chosen for this machine (or by SGL_CPU_ISA)
const char* sgl_isa_error();                  // why a forced ISA was refused, or null
