#include "topomask/train/schedule.h"

#include <c10/util/Exception.h>

#include <cmath>
#include <numbers>

#include "config/names.h"

namespace topomask {

double learning_rate(const TrainOptions& options, int64_t step, int64_t steps) {
  TORCH_CHECK(step >= 0 && steps >= 0, "learning_rate: step and steps must be >= 0, got ", step, " and ", steps);
  if (step < options.warmup_steps) {
    return options.learning_rate * static_cast<double>(step + 1) / static_cast<double>(options.warmup_steps);
  }
  const int64_t falls_from = options.warmup_steps + options.constant_steps;
  if (step < falls_from) return options.learning_rate;
  if (kScheduleNames.parse("learning_rate", "schedule", options.schedule) == RateSchedule::step) {
    return options.final_learning_rate;
  }
  const auto length = static_cast<double>(steps - falls_from);  // the last step is at 1
  const double place = std::min(1.0, static_cast<double>(step - falls_from + 1) / std::max(length, 1.0));
  return options.final_learning_rate +
         (options.learning_rate - options.final_learning_rate) * 0.5 * (1 + std::cos(std::numbers::pi * place));
}

}  // namespace topomask
