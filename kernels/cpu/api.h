// The plain C interface (called through ctypes) and how an op is submitted: run at once, or recorded on a tape.
// Pointers are host addresses; sizes and strides are in elements; every function returns 0, or -1 with sgl_last_error().
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SGL_API extern "C" __attribute__((visibility("default")))

int fail(const char* format, ...) __attribute__((format(printf, 1, 2)));  // sets the calling thread's message, returns -1

using OpFn = void (*)(const void* args);
// Runs fn(args), or copies both to the tape that this thread records.
int submit(OpFn fn, const void* args, size_t bytes, const char* name);

// Adapts a typed op to OpFn without a table: the typed function is a template argument.
template <class Args, void (*Fn)(const Args&)>
static void op_entry(const void* args) {
  Args copy;
  memcpy(&copy, args, sizeof copy);
  Fn(copy);
}
#define SGL_SUBMIT(Args, fn, value) submit(op_entry<Args, fn>, &(value), sizeof(value), #fn)
