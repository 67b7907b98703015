#include "run_folder.h"

#include <filesystem>

namespace topomask::apps {

LoadedModel open_run(const std::string& run, const std::string& device) {
  const std::filesystem::path path(run);
  TORCH_CHECK(std::filesystem::exists(path), run, ": there is no such run; `topomask train --out ", run, "` makes one");
  const std::filesystem::path checkpoint = std::filesystem::is_directory(path) ? path / "checkpoint.pt" : path;
  TORCH_CHECK(std::filesystem::exists(checkpoint), run, ": the folder has no checkpoint.pt; has the run made a step?");
  LoadedModel loaded = load_model(checkpoint, at::Device(device));
  loaded.model->eval();
  return loaded;
}

}  // namespace topomask::apps
