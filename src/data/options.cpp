#include "topomask/data/options.h"

#include "core/option_checks.h"

namespace topomask {

void DataOptions::check(const std::string& origin) const {
  const OptionChecks check(origin);
  check.one_of("kind", kind, {"idx", "cifar10", "cifar100", "image_folder", "synthetic"});
  const auto count = [&](const char* field, int64_t value, int64_t most) {
    TORCH_CHECK(value >= 0, origin, field, " must not be negative, got ", value);
    TORCH_CHECK(value <= most, origin, field, " must be at most ", most, ", got ", value);
  };
  constexpr int64_t kMostImages = (int64_t{1} << 32) - 1;  // images are numbered by 32 bits in what is drawn for them
  count("validation", validation, kMostImages);
  count("limit", limit, kMostImages);
  check.within("image_size", image_size, 1, 4096);
  count("synthetic_train", synthetic_train, kMostImages);
  count("synthetic_test", synthetic_test, kMostImages);
  check.within("workers", workers, 0, 1024);
  check.within("prefetch", prefetch, 0, 65536);
  count("crop_padding", crop_padding, 4096);
  check.not_negative("mixup", mixup, check.kLargestParameter);
  check.not_negative("cutmix", cutmix, check.kLargestParameter);
  for (const double value : mean) check.finite("mean", value, check.kLargestParameter);
  for (const double value : standard_deviation) {
    check.positive("standard_deviation", value, check.kLargestParameter);
    check.that(value >= 1e-6, "standard_deviation", "at least 1e-6, got ", value);
  }
}

}  // namespace topomask
