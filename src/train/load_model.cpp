#include "topomask/config.h"
#include "topomask/train/checkpoint.h"

namespace topomask {

LoadedTask load_task(const std::filesystem::path& path, at::Device device,
                     const std::function<void(RunConfig&)>& change) {
  const Checkpoint checkpoint = load_checkpoint(path);
  RunConfig config = parse_config(checkpoint.config, path.string() + ": ");
  if (change) change(config);
  LoadedTask loaded{.task = make_task(config), .step = checkpoint.step};
  loaded.task->make_model(device);
  load_weights(loaded.task->model(), checkpoint.judged());
  loaded.task->model().eval();
  return loaded;
}

LoadedModel load_model(const std::filesystem::path& path, at::Device device) {
  const Checkpoint checkpoint = load_checkpoint(path);
  LoadedModel loaded{.config = parse_config(checkpoint.config, path.string() + ": "), .step = checkpoint.step};
  TORCH_CHECK(loaded.config.task == "images", path.string(), ": load_model: the task must be images, got ",
              loaded.config.task);
  loaded.model = std::make_shared<ViT>(loaded.config.model, loaded.config.train.seed);
  load_weights(*loaded.model, checkpoint.judged());
  loaded.model->to(device);
  loaded.model->eval();
  return loaded;
}

}  // namespace topomask
