// The error text of the calling thread, and the library's questions about itself.
#include <stdarg.h>
#include <stdio.h>

#include "api.h"
#include "kernels.h"
#include "pool.h"

static thread_local char t_message[512] = "";

int fail(const char* format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(t_message, sizeof t_message, format, args);
  va_end(args);
  return -1;
}

SGL_API const char* sgl_last_error() { return t_message; }
SGL_API int sgl_abi() { return 3; }
SGL_API const char* sgl_isa() { return sgl_kernels()->name; }
SGL_API int sgl_bf16_tiles() { return sgl_kernels()->panel_bf16 != nullptr; }
SGL_API const char* sgl_isa_note() { const char* e = sgl_isa_error(); return e ? e : ""; }
SGL_API int sgl_pool_threads() { return pool_threads(); }
SGL_API int sgl_pool_default_threads() { return pool_default_threads(); }
SGL_API int sgl_pool_set_threads(int n, int pin) { return pool_set_threads(n, pin); }
SGL_API int64_t sgl_pool_selftest(int64_t jobs) { return pool_selftest(jobs); }
