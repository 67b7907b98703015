#include <ATen/ATen.h>
#include <ATen/Version.h>
#include <torch/version.h>

#include "activity.h"
#include "command.h"
#include "output.h"
#include "topomask/nn/variants.h"
#include "topomask/version.h"

namespace topomask::apps {
namespace {

/// What the kernels of this library run at here (see src/core/simd.h).
const char* simd_level() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4")) return "x86-64-v4 (AVX-512)";
  if (__builtin_cpu_supports("x86-64-v3")) return "x86-64-v3 (AVX2)";
  return "x86-64 (SSE2)";
#else
  return "generic";
#endif
}

}  // namespace

void add_info(CLI::App& app, Context& context) {
  add_command(app, context, "info", "Version, torch, threads, processor level and GPU",
              "  topomask info\n  topomask info --json", [&context](Activity&) {
                const bool cuda = at::hasCUDA();
                Json result{{"version", TOPOMASK_VERSION},
                            {"torch", TORCH_VERSION},
                            {"threads", at::get_num_threads()},
                            {"simd", simd_level()},
                            {"torch_simd", at::get_cpu_capability()},
                            {"cuda", cuda},
                            {"devices", cuda ? at::getNumGPUs() : 0},
                            {"variants", variant_names()}};
                print(result, context.json);
                return 0;
              });
}

}  // namespace topomask::apps
