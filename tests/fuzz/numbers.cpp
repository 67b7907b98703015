#include <cmath>

#include "argument_checks.h"
#include "fuzz/lines.h"
#include "mask_arguments.h"

// The values of options, one argument on each line: whole numbers, finite numbers, and functions of hops such as
// --f=1,0.5 or --f=diffusion:2 with --terms. A value that an option's check accepts is inside of what it promises.

namespace {

using namespace topomask;

struct Values {
  int64_t whole = 1, bounded = 1;
  double finite = 1, fraction = 0.5, positive = 1;
  apps::FunctionArguments function = {};
};

void add_values_to(CLI::App& app, Values& values) {
  app.add_option("--whole", values.whole)->check(apps::whole_number(0));
  app.add_option("--bounded", values.bounded)->check(apps::whole_number(-7, 32767));
  app.add_option("--finite", values.finite)->check(apps::finite_number());
  app.add_option("--fraction", values.fraction)->check(apps::between_zero_and_one());
  app.add_option("--positive", values.positive)->check(apps::positive_number());
  values.function.add_to(app);
}

}  // namespace

FUZZ_TARGET(numbers) {
  static CLI::App app;
  static Values values;
  static const bool once = (add_values_to(app, values), true);
  fuzz::require(once, "no arguments");
  values = {};
  fuzz::run_arguments(app, fuzz::lines_of(data, size), [] {
    fuzz::require(values.whole >= 0, "a whole number below its bound");
    fuzz::require(values.bounded >= -7 && values.bounded <= 32767, "a whole number out of its bounds");
    fuzz::require(std::isfinite(values.finite), "a number that is not finite");
    fuzz::require(values.fraction > 0 && values.fraction < 1, "a number outside (0, 1)");
    fuzz::require(std::isfinite(values.positive) && values.positive > 0, "a number that is not positive");
    const at::Tensor f = values.function.make();
    fuzz::require(f.dim() == 1 && f.size(0) >= 1 && f.isfinite().all().item<bool>(), "a function that is not finite");
  });
}
