#include "topomask/train/checkpoint.h"

#include <ATen/ATen.h>

#include <charconv>
#include <set>

#include "train/tensor_file.h"

namespace topomask {
namespace {

constexpr const char* kKind = "checkpoint 2";
constexpr const char* kLosses = "train/losses";
constexpr const char* kBestScore = "train/best";

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
  add_part(file.tensors, "best/", checkpoint.best);
  add_part(file.tensors, "optimiser/", checkpoint.optimiser);
  if (checkpoint.best_score.defined()) file.tensors[kBestScore] = checkpoint.best_score.to(at::kCPU).contiguous();
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
    } else if (name.starts_with("best/")) {
      c.best[name.substr(slash + 1)] = tensor;
    } else if (name.starts_with("optimiser/")) {
      c.optimiser[name.substr(slash + 1)] = tensor;
    } else if (name == kLosses && tensor.dim() == 1) {
      c.losses = tensor;
    } else if (name == kBestScore && tensor.dim() == 1 && tensor.size(0) == 3) {
      c.best_score = tensor;
    } else {
      io::fail(origin, "malformed: a checkpoint has no tensor ", name, " of shape ", tensor.sizes());
    }
  }
  return c;
}

namespace {

/// In the order in which the model registered them.
std::vector<std::pair<std::string, at::Tensor>> weights_in_order(const torch::nn::Module& model) {
  std::vector<std::pair<std::string, at::Tensor>> result;
  for (const auto& item : model.named_parameters()) result.emplace_back(item.key(), item.value().detach());
  for (const auto& item : model.named_buffers()) {
    const bool statistic = item.key().ends_with("running_mean") || item.key().ends_with("running_var");
    if (statistic) result.emplace_back(item.key(), item.value());
  }
  return result;
}

}  // namespace

NamedTensors weights(const torch::nn::Module& model) {
  NamedTensors result;
  for (const auto& [name, tensor] : weights_in_order(model)) result[name] = tensor;
  return result;
}

void load_weights(torch::nn::Module& model, const NamedTensors& given, bool other_head) {
  const at::NoGradGuard no_grad;
  std::set<std::string> own;
  for (const auto& [name, tensor] : weights_in_order(model)) {
    own.insert(name);
    const auto found = given.find(name);
    TORCH_CHECK(found != given.end(), "load_weights: weights must have ", name,
                ", got none: they are of another model");
    const bool fits = found->second.sizes() == tensor.sizes();
    // In models of graphs the head is part of the readout: "readout.head.weight".
    const bool of_head = name.starts_with("head.") || name.find(".head.") != std::string::npos;
    if (!fits && other_head && of_head) continue;
    TORCH_CHECK(fits, "load_weights: ", name, " must be ", tensor.sizes(), ", got ", found->second.sizes(),
                ": it is of another model");
    at::Tensor(tensor).copy_(found->second);
  }
  for (const auto& [name, tensor] : given) {
    TORCH_CHECK(own.contains(name), "load_weights: the model must have ", name,
                ", got none: the weights are of another model");
  }
}

}  // namespace topomask
