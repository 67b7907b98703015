#include <map>

#include "data/random_order.h"
#include "data/readers.h"

namespace topomask {
namespace {

using Opener = DatasetPtr (*)(const DataOptions&, bool test);

const std::map<std::string, Opener> kOpeners{{"idx", open_idx},
                                             {"cifar10", open_cifar10},
                                             {"cifar100", open_cifar100},
                                             {"image_folder", open_image_folder},
                                             {"synthetic", open_synthetic}};

}  // namespace

DatasetPtr open_dataset(const DataOptions& options, Split split) {
  options.check();
  const auto opener = kOpeners.find(options.kind);
  TORCH_INTERNAL_ASSERT(opener != kOpeners.end());
  TORCH_CHECK(options.kind == "synthetic" || std::filesystem::is_directory(options.path),
              "open_dataset: data.path must be a folder that holds ", options.kind, " files, got '", options.path, "'");
  DatasetPtr all = opener->second(options, split == Split::test);
  if (split == Split::test) return all;
  TORCH_CHECK(options.validation <= all->size(), "open_dataset: data.validation must be from 0 to ", all->size(),
              ", the size of the training set, got ", options.validation);
  const std::vector<int64_t> order = random_order(all->size(), options.split_seed, 0, DrawFor::split);
  const auto middle = order.begin() + options.validation;
  if (split == Split::validation) return subset(all, {order.begin(), middle});
  const bool limited = options.limit > 0 && options.limit < order.end() - middle;
  if (options.validation == 0 && !limited) return all;
  return subset(all, {middle, limited ? middle + options.limit : order.end()});
}

}  // namespace topomask
