#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "activity.h"
#include "argument_checks.h"
#include "command.h"
#include "output.h"
#include "topomask/data/animation.h"
#include "topomask/data/episodes.h"
#include "topomask/data/image.h"

namespace topomask::apps {
namespace {

struct PlayCommand {
  std::string path, out = ".";
  int64_t episode = 0, across = 9, scale = 0;
};

constexpr int64_t kWidthShown = 128;  // pixels of an image in the pictures, where no scale is given

at::Tensor colour_image(const Episode& episode, int64_t frame, int64_t camera) {
  return episode.rgb[frame][camera].permute({2, 0, 1}).contiguous();
}

/// Near is bright; pixels without a depth are grey.
at::Tensor depth_image(const Episode& episode, int64_t frame, int64_t camera) {
  const at::Tensor known = episode.depth.masked_select(episode.depth > 0);
  if (known.numel() == 0) return colour_map(at::full_like(episode.depth[frame][camera], NAN));
  const double low = known.min().item<double>(), high = known.max().item<double>();
  const at::Tensor depth = episode.depth[frame][camera];
  const at::Tensor nearness = (high - depth) / std::max(high - low, 1e-6);
  return colour_map(at::where(depth > 0, nearness, at::full_like(depth, NAN)));
}

/// Frames across; a row for each camera, then a row of depth for each.
at::Tensor contact_sheet(const Episode& episode, int64_t across, int64_t scale) {
  const at::Tensor frames = at::linspace(0, static_cast<double>(episode.frames() - 1), across).round().to(at::kLong);
  std::vector<at::Tensor> images;
  for (const auto& draw : {colour_image, depth_image}) {
    for (int64_t camera = 0; camera < episode.cameras(); ++camera) {
      for (int64_t i = 0; i < across; ++i) images.push_back(draw(episode, frames[i].item<int64_t>(), camera));
    }
  }
  return panels(images, across, scale);
}

/// Cameras side by side, depth below.
std::vector<at::Tensor> moving_picture(const Episode& episode, int64_t scale) {
  std::vector<at::Tensor> pictures;
  for (int64_t frame = 0; frame < episode.frames(); ++frame) {
    std::vector<at::Tensor> images;
    for (const auto& draw : {colour_image, depth_image}) {
      for (int64_t camera = 0; camera < episode.cameras(); ++camera) images.push_back(draw(episode, frame, camera));
    }
    pictures.push_back(panels(images, episode.cameras(), scale));
  }
  return pictures;
}

int run(const PlayCommand& arguments, bool json, Activity& activity) {
  activity.stage("reading " + arguments.path);
  const EpisodeSet set(arguments.path);
  if (arguments.episode >= set.size()) {
    throw UsageError(c10::str("play: --episode must be below ", set.size(), ", got ", arguments.episode));
  }
  const Episode episode = set.load(arguments.episode);
  activity.stage("drawing episode " + std::to_string(arguments.episode));
  const int64_t scale = arguments.scale > 0 ? arguments.scale : std::max<int64_t>(1, kWidthShown / episode.width());
  const int64_t across = std::min(arguments.across, episode.frames());
  std::filesystem::create_directories(arguments.out);
  const std::string stem = "episode-" + std::to_string(arguments.episode);
  const std::string sheet = (std::filesystem::path(arguments.out) / (stem + "-sheet.png")).string();
  const std::string animation = (std::filesystem::path(arguments.out) / (stem + ".apng")).string();
  write_png(sheet, contact_sheet(episode, across, scale));
  const auto milliseconds = static_cast<int64_t>(std::clamp(std::round(episode.interval * 1000), 1.0, 65535.0));
  write_animation(animation, moving_picture(episode, scale), milliseconds);

  const at::Tensor moved = moved_objects(episode, 0, episode.frames() - 1);
  Json objects = Json::array();
  for (int64_t b = 0; b < episode.objects(); ++b) {
    objects.push_back(episode.names[static_cast<size_t>(b)] + (moved[b].item<bool>() ? " (moved)" : ""));
  }
  Json result{{"episodes", set.size()},
              {"episode", arguments.episode},
              {"kind", episode.kind},
              {"seed", episode.seed},
              {"frames", episode.frames()},
              {"seconds", episode.interval * static_cast<double>(episode.frames() - 1)},
              {"cameras", episode.cameras()},
              {"height", episode.height()},
              {"width", episode.width()},
              {"objects", objects},
              {"object pixels", (episode.ids >= kFirstObject).to(at::kDouble).mean().item<double>()},
              {"sheet", sheet},
              {"animation", animation}};
  activity.finish();
  print(result, json);
  return 0;
}

}  // namespace

void add_play(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<PlayCommand>();
  CLI::App* command =
      add_command(app, context, "play", "Draw an episode of robot data: a contact sheet and an animation",
                  "  topomask play build/robot --episode 3 --out pictures\n"
                  "  topomask play build/robot/robot-00000.episodes --json",
                  [arguments, &context](Activity& activity) { return run(*arguments, context.json, activity); });
  command->add_option("episodes", arguments->path, "a shard (*.episodes), or a folder of shards")->required();
  command->add_option("--episode", arguments->episode, "which of them, from 0")
      ->capture_default_str()
      ->check(whole_number(0));
  command->add_option("--out", arguments->out, "folder for the pictures")->capture_default_str();
  command->add_option("--across", arguments->across, "frames in the contact sheet")
      ->capture_default_str()
      ->check(whole_number(1, 1000));
  command->add_option("--scale", arguments->scale, "pixels for a pixel; 0: images become about 128 wide")
      ->capture_default_str()
      ->check(whole_number(0, 64));
}

}  // namespace topomask::apps
