#include "topomask/config.h"
#include "topomask/train/checkpoint.h"

namespace topomask {

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
