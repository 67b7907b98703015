#include "topomask/train/checkpoint.h"

#include <ATen/ATen.h>

#include <charconv>

#include "train/tensor_file.h"

namespace topomask {
namespace {

constexpr const char* kKind = "checkpoint 2";
constexpr const char* kLosses = "train/losses";

/// Weights have their own names, everything else a part before the slash.
void add_part(NamedTensors& all, const std::string& part, const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) {
    TORCH_CHECK(name.find('/') == std::string::npos, "save_checkpoint: names of tensors must be without /, got ", name);
    all[part + name] = tensor.detach().to(at::kCPU).contiguous();
  }
}

/// The shortest digits that read back as the same number.
std::string digits_of(auto number) {
  std::array<char, 32> digits{};
  const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  return {digits.data(), written.ptr};
}

const std::string& text_of(const io::Origin& origin, const TensorFile& file, const std::string& name) {
  const auto found = file.metadata.find(name);
  if (found == file.metadata.end()) io::fail(origin, "malformed: no ", name, " in its metadata");
  return found->second;
}

template <class Number>
Number number_of(const io::Origin& origin, const TensorFile& file, const std::string& name) {
  const std::string& text = text_of(origin, file, name);
  Number number{};
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || !(number >= 0)) {
    io::fail(origin, "malformed: ", name, " must be a number >= 0, got '", text, "'");
  }
  return number;
}

}  // namespace

void save_checkpoint(const Checkpoint& checkpoint, const std::filesystem::path& path) {
  TensorFile file{.metadata = {{"step", digits_of(checkpoint.step)},
                               {"seconds", digits_of(checkpoint.seconds)},
                               {"config", checkpoint.config}}};
  add_part(file.tensors, "", checkpoint.model);
  add_part(file.tensors, "average/", checkpoint.average);
  add_part(file.tensors, "optimiser/", checkpoint.optimiser);
  if (checkpoint.losses.defined()) file.tensors[kLosses] = checkpoint.losses.to(at::kCPU).contiguous();
  write_tensor_file({"save_checkpoint", path.string()}, kKind, file);
}

Checkpoint load_checkpoint(const std::filesystem::path& path) {
  const io::Origin origin{"load_checkpoint", path.string()};
  const TensorFile file = read_tensor_file(origin, kKind);
  Checkpoint c{.step = number_of<int64_t>(origin, file, "step"),
               .seconds = number_of<double>(origin, file, "seconds"),
               .config = text_of(origin, file, "config")};
  for (const auto& [name, tensor] : file.tensors) {
    const size_t slash = name.find('/');
    if (slash == std::string::npos) {
      c.model[name] = tensor;
    } else if (name.starts_with("average/")) {
      c.average[name.substr(slash + 1)] = tensor;
    } else if (name.starts_with("optimiser/")) {
      c.optimiser[name.substr(slash + 1)] = tensor;
    } else if (name == kLosses && tensor.dim() == 1) {
      c.losses = tensor;
    } else {
      io::fail(origin, "malformed: a checkpoint has no tensor ", name, " of shape ", tensor.sizes());
    }
  }
  return c;
}

NamedTensors weights(const torch::nn::Module& model) {
  NamedTensors result;
  for (const auto& item : model.named_parameters()) result[item.key()] = item.value().detach();
  return result;
}

void load_weights(torch::nn::Module& model, const NamedTensors& weights, bool other_head) {
  const at::NoGradGuard no_grad;
  const auto own = model.named_parameters();
  for (const auto& item : own) {
    const auto found = weights.find(item.key());
    TORCH_CHECK(found != weights.end(), "load_weights: weights must have ", item.key(),
                ", got none: they are of another model");
    const bool fits = found->second.sizes() == item.value().sizes();
    if (!fits && other_head && item.key().starts_with("head.")) continue;
    TORCH_CHECK(fits, "load_weights: ", item.key(), " must be ", item.value().sizes(), ", got ", found->second.sizes(),
                ": it is of another model");
    at::Tensor(item.value()).copy_(found->second);
  }
  for (const auto& [name, tensor] : weights) {
    TORCH_CHECK(own.contains(name), "load_weights: the model must have ", name,
                ", got none: the weights are of another model");
  }
}

}  // namespace topomask
