// What a product is asked for, and its bf16 driver.
#pragma once
#include <stdint.h>

#include "kernels.h"

constexpr int kMaxMatrices = 8;
enum LinearFlags { LINEAR_EXACT = 1, LINEAR_ACCUMULATE = 2 };

struct LinearArgs {
  int32_t n, flags;
  const void* packed[kMaxMatrices];
  float* out[kMaxMatrices];
  const float* bias[kMaxMatrices];
  int64_t ldo[kMaxMatrices];
  const float* x;
  int64_t ldx, T;
  int64_t bf16_from;  // rows from here on are multiplied in bf16 where the instruction set has it
  int32_t act;        // an ActKind: the two matrices are gate and up, and out[0] = act(gate) * up; -1: each has its own out

  // What is cut into chunks: matrices, or pairs of them.
  int units() const { return act < 0 ? n : 1; }
  int unit_size() const { return act < 0 ? 1 : 2; }
};

void linear_bf16(const Kernels* k, const LinearArgs& a);  // all rows of a; k->panel_bf16 must be there
