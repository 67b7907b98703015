#include "support/golden.h"

#include <torch/csrc/jit/serialization/pickle.h>

#include <fstream>
#include <iterator>
#include <vector>

namespace topomask::testing {

std::map<std::string, at::Tensor> golden(const std::string& name) {
  const std::string path = std::string(TOPOMASK_GOLDEN_DIR) + "/" + name + ".pt";
  std::ifstream file(path, std::ios::binary);
  TORCH_CHECK(file, "golden: cannot read ", path);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::map<std::string, at::Tensor> tensors;
  for (const auto& item : torch::jit::pickle_load(bytes).toGenericDict()) {
    tensors[item.key().toStringRef()] = item.value().toTensor();
  }
  return tensors;
}

}  // namespace topomask::testing
