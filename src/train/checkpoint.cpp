#include "topomask/train/checkpoint.h"

#include <ATen/ATen.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <zlib.h>

#include <fstream>

#include "graph/io/output_file.h"
#include "topomask/config.h"

namespace topomask {
namespace {

constexpr const char* kFormat = "topomask checkpoint 1";
constexpr const char* kLoad = "load_checkpoint";

using Parts = std::map<std::string, const NamedTensors*>;

/// zlib takes a null pointer, which an empty tensor has, as a wish to begin anew.
uint64_t add(uint64_t sum, const void* data, size_t bytes) {
  return bytes == 0 ? sum : ::crc32_z(sum, static_cast<const Bytef*>(data), bytes);
}

/// Of everything a checkpoint says; tensors are contiguous on the CPU.
int64_t checksum(const Checkpoint& c, const Parts& parts) {
  uint64_t sum = add(0, c.config.data(), c.config.size());
  sum = add(sum, &c.step, sizeof(c.step));
  sum = add(sum, &c.seconds, sizeof(c.seconds));
  for (const auto& [part, tensors] : parts) {
    for (const auto& [name, tensor] : *tensors) {
      const std::string key = c10::str(part, ' ', name, ' ', tensor.scalar_type(), tensor.sizes());
      sum = add(add(sum, key.data(), key.size()), tensor.const_data_ptr(), tensor.nbytes());
    }
  }
  return static_cast<int64_t>(sum);
}

NamedTensors on_cpu(const NamedTensors& tensors) {
  NamedTensors result;
  for (const auto& [name, tensor] : tensors) result[name] = tensor.detach().to(at::kCPU).contiguous();
  return result;
}

Parts parts_of(const Checkpoint& c) {
  return {{"average", &c.average}, {"model", &c.model}, {"optimiser", &c.optimiser}};
}

std::vector<char> read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) io::fail({kLoad, path.string()}, "cannot read: no such file, or not allowed");
  std::vector<char> bytes(static_cast<size_t>(file.tellg()));
  file.seekg(0);
  if (!file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()))) {
    io::fail({kLoad, path.string()}, "cannot read: cut short");
  }
  return bytes;
}

Checkpoint unpack(const std::vector<char>& bytes) {
  const auto dict = torch::jit::pickle_load(bytes).toGenericDict();
  TORCH_CHECK(dict.at("format").toStringRef() == kFormat, "format must be '", kFormat, "', got '",
              dict.at("format").toStringRef(), "'");
  Checkpoint c;
  c.step = dict.at("step").toInt();
  c.seconds = dict.at("seconds").toDouble();
  c.config = dict.at("config").toStringRef();
  const auto read = [&](const char* part, NamedTensors& tensors) {
    for (const auto& item : dict.at(part).toGenericDict()) {
      tensors[item.key().toStringRef()] = item.value().toTensor().contiguous();
    }
  };
  read("model", c.model);
  read("average", c.average);
  read("optimiser", c.optimiser);
  TORCH_CHECK(checksum(c, parts_of(c)) == dict.at("checksum").toInt(), "its checksum does not fit");
  return c;
}

}  // namespace

void save_checkpoint(const Checkpoint& given, const std::filesystem::path& path) {
  const Checkpoint c{given.step,          given.seconds,         given.config,
                     on_cpu(given.model), on_cpu(given.average), on_cpu(given.optimiser)};
  c10::impl::GenericDict dict(c10::StringType::get(), c10::AnyType::get());
  dict.insert("format", kFormat);
  dict.insert("step", c.step);
  dict.insert("seconds", c.seconds);
  dict.insert("config", c.config);
  const Parts parts = parts_of(c);
  for (const auto& [part, tensors] : parts) {
    c10::Dict<std::string, at::Tensor> entries;
    for (const auto& [name, tensor] : *tensors) entries.insert(name, tensor);
    dict.insert(part, entries);
  }
  dict.insert("checksum", checksum(c, parts));
  const std::vector<char> bytes = torch::jit::pickle_save(dict);
  io::OutputFile file({"save_checkpoint", path.string()});
  file.put(std::string_view(bytes.data(), bytes.size()));
  file.commit();
}

Checkpoint load_checkpoint(const std::filesystem::path& path) {
  const std::vector<char> bytes = read_file(path);
  try {
    return unpack(bytes);
  } catch (const std::exception& error) {
    const auto* ours = dynamic_cast<const c10::Error*>(&error);
    std::string reason = ours ? ours->what_without_backtrace() : error.what();
    io::fail({kLoad, path.string()}, "not a whole checkpoint: ", reason.substr(0, reason.find('\n')));
  }
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

LoadedModel load_model(const std::filesystem::path& path, at::Device device) {
  const Checkpoint checkpoint = load_checkpoint(path);
  LoadedModel loaded{.config = parse_config(checkpoint.config, path.string() + ": "), .step = checkpoint.step};
  loaded.model = std::make_shared<ViT>(loaded.config.model, loaded.config.train.seed);
  load_weights(*loaded.model, checkpoint.average.empty() ? checkpoint.model : checkpoint.average);
  loaded.model->to(device);
  loaded.model->eval();
  return loaded;
}

}  // namespace topomask
