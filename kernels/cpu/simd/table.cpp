// One instruction set's kernels. CMake compiles this file once per ISA, with SGL_NS naming it and that ISA's -m flags.
#include "../kernels.h"
// The order matters: linear_int.h uses linear_float.h's row store.
#include "attention_few.h"
#include "fused.h"
#include "linear_float.h"
#include "linear_int.h"
#if defined(SGL_WITH_AMX)
#include "attention_few_bf16.h"
#include "linear_amx.h"
#endif

#define SGL_CAT2(a, b) a##b
#define SGL_CAT(a, b) SGL_CAT2(a, b)
#define SGL_STR2(x) #x
#define SGL_STR(x) SGL_STR2(x)

extern const Kernels SGL_CAT(kernels_, SGL_NS);
// Constant-initialized: loading the library runs no instruction of this file.
constexpr Kernels SGL_CAT(kernels_, SGL_NS) = {
    SGL_STR(SGL_NS),
    SGL_NS::quantize_row,
#if defined(SGL_WITH_AMX)
    SGL_NS::tile_int_amx,
#else
    SGL_NS::tile_int,
#endif
    SGL_NS::tile_float,
    SGL_NS::dequant_tile,
#if defined(SGL_WITH_AMX)
    SGL_NS::rows_bf16,
    SGL_NS::spread_bf16,
    SGL_NS::panel_bf16,
#else
    nullptr,
    nullptr,
    nullptr,
#endif
    SGL_NS::attend_segment,
#if defined(SGL_WITH_AMX)
    SGL_NS::attend_segment_bf16,
    SGL_NS::attend_few_bf16,
#else
    nullptr,
    nullptr,
#endif
    SGL_NS::attend_merge,
    SGL_NS::rms_norm,
    SGL_NS::rope,
    SGL_NS::act_mul,
    SGL_NS::kv_store,
    SGL_NS::add,
    SGL_NS::argmax,
    SGL_NS::exp_sum,
};
