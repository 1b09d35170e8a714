// Chooses the instruction set at run time: cpuid for the instructions, xgetbv for the registers the OS saves, and
// SGL_CPU_ISA to force a lower one. This file is compiled for the baseline machine only.
#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

extern const Kernels kernels_generic;
#if defined(__x86_64__)
extern const Kernels kernels_avx2, kernels_avx512, kernels_avx512vnni, kernels_amx;

static uint64_t xcr0() {
  uint32_t lo, hi;
  __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
  return (uint64_t(hi) << 32) | lo;
}

// 0 generic, 1 avx2, 2 avx512, 3 avx512vnni, 4 amx
static int detect() {
  uint32_t a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return 0;
  const bool osxsave = c & (1u << 27), avx = c & (1u << 28), fma = c & (1u << 12), f16c = c & (1u << 29);
  if (!osxsave || !avx || !fma || !f16c) return 0;
  const uint64_t x = xcr0();
  if ((x & 0x6) != 0x6) return 0;
  uint32_t a7, b7, c7, d7;
  if (!__get_cpuid_count(7, 0, &a7, &b7, &c7, &d7)) return 0;
  if (!(b7 & (1u << 5))) return 0;
  const bool f = b7 & (1u << 16), dq = b7 & (1u << 17), bw = b7 & (1u << 30), vl = b7 & (1u << 31);
  if (!f || !dq || !bw || !vl || (x & 0xe6) != 0xe6) return 1;
  if (!(c7 & (1u << 11))) return 2;
  uint32_t a71, b71, c71, d71;
  const bool avx512_bf16 = __get_cpuid_count(7, 1, &a71, &b71, &c71, &d71) && (a71 & (1u << 5));
  const bool amx_bf16 = d7 & (1u << 22), amx_tile = d7 & (1u << 24), amx_int8 = d7 & (1u << 25);
  if (!avx512_bf16 || !amx_bf16 || !amx_tile || !amx_int8 || (x & 0x60000) != 0x60000) return 3;
  // Linux hands out the 8 KiB of tile state on request only (ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA = 18).
  if (syscall(SYS_arch_prctl, 0x1023, 18) != 0) return 3;
  return 4;
}
#endif

static const char* g_error = nullptr;

static const Kernels* choose() {
#if defined(__x86_64__)
  static const Kernels* const tables[] = {&kernels_generic, &kernels_avx2, &kernels_avx512, &kernels_avx512vnni, &kernels_amx};
  static const char* const names[] = {"generic", "avx2", "avx512", "avx512vnni", "amx"};
  int best = detect();
  const char* want = getenv("SGL_CPU_ISA");
  if (want && *want) {
    for (int i = 0; i < 5; i++)
      if (!strcmp(want, names[i])) {
        if (i <= best) return tables[i];
        g_error = "SGL_CPU_ISA asks for instructions this machine (or its kernel) does not offer; the best supported set is used";
        return tables[best];
      }
    g_error = "SGL_CPU_ISA is not one of generic, avx2, avx512, avx512vnni, amx; the best supported set is used";
  }
  return tables[best];
#else
  return &kernels_generic;
#endif
}

const Kernels* sgl_kernels() {
  static const Kernels* const k = choose();
  return k;
}

const char* sgl_isa_error() {
  sgl_kernels();
  return g_error;
}
