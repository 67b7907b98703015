#include "run_folder.h"

#include <filesystem>
#include <iostream>

#include "command.h"
#include "core/device_name.h"
#include "topomask/config.h"
#include "train/device.h"

namespace topomask::apps {

void check_device_name(const std::string& name) {
  if (!is_device_name(name)) {
    throw UsageError("--device must be cpu, cuda or cuda:N, got '" + name + "'");
  }
}

namespace {

std::filesystem::path checkpoint_of(const std::string& run) {
  const std::filesystem::path path(run);
  TORCH_CHECK(std::filesystem::exists(path), run, ": there is no such run; `topomask train --out ", run, "` makes one");
  const bool folder = std::filesystem::is_directory(path);
  const std::filesystem::path checkpoint = folder ? path / kCheckpointName : path;
  TORCH_CHECK(
      !folder || std::filesystem::exists(checkpoint) || !std::filesystem::exists(path / "checkpoint.pt"), run,
      ": the folder has a checkpoint.pt, a pickle of an earlier version, which is no longer read; train it again");
  TORCH_CHECK(std::filesystem::exists(checkpoint), run, ": the folder has no ", kCheckpointName,
              "; has the run made a step?");
  return checkpoint;
}

}  // namespace

LoadedModel open_run(const std::string& run, const std::string& device) {
  check_device_name(device);
  const at::Device where = usable_device("--device", device);
  return load_model(checkpoint_of(run), where);
}

RunConfig run_config(const std::string& run) {
  const std::filesystem::path checkpoint = checkpoint_of(run);
  return parse_config(load_checkpoint(checkpoint).config, checkpoint.string() + ": ");
}

LoadedTask open_task(const std::string& run, const std::string& device, const std::function<void(RunConfig&)>& change) {
  if (!device.empty()) check_device_name(device);
  RunConfig config = run_config(run);
  change(config);
  return load_task(checkpoint_of(run), evaluation_device(device, config), change);
}

at::Device evaluation_device(const std::string& asked, const RunConfig& config) {
  if (!asked.empty()) return usable_device("--device", asked);
  const std::string& trained = config.train.device;
  if (trained != "cpu" && !available(at::Device(trained))) {
    std::cerr << "the run was trained on " << trained << ", which is not available here: evaluating on the CPU\n";
    return at::kCPU;
  }
  return at::Device(trained);
}

}  // namespace topomask::apps
