#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <set>

#include "data/random_order.h"
#include "data/video/names.h"
#include "data/video/readers.h"
#include "topomask/data/episodes.h"

namespace topomask {
namespace {

struct View {
  int64_t episode, camera, label;
};

class EpisodeClips final : public VideoDataset {
 public:
  EpisodeClips(VideoInfo info, EpisodeSet set, std::vector<View> views)
      : VideoDataset(std::move(info)), set_(std::move(set)), views_(std::move(views)) {}

  int64_t read(int64_t index, uint8_t* clip) const override {
    const View& view = views_[static_cast<size_t>(index)];
    const auto& [frames, channels, size, width] = clip_shape();
    const Episode episode = set_.load(view.episode);
    for (const int64_t frame : chosen_frames(episode.frames(), frames)) {
      write_frame(episode.rgb[frame][view.camera].permute({2, 0, 1}), size, clip);
      clip += channels * size * width;
    }
    return view.label;
  }

 private:
  EpisodeSet set_;
  std::vector<View> views_;
};

/// The object whose position changes most between the first and the last frame, "box" for "box 2": which of several
/// boxes has which number cannot be seen.
std::string most_moved_object(const Episode& episode) {
  const at::Tensor places = episode.bodies.narrow(2, 0, 3);
  const at::Tensor distance = (places[-1] - places[0]).norm(2, -1);
  std::string name = episode.names[static_cast<size_t>(distance.argmax().item<int64_t>())];
  if (const size_t end = name.find_last_not_of("0123456789"); end != std::string::npos && name[end] == ' ') {
    name.resize(end);
  }
  return name;
}

/// The class of each episode, as a name.
std::vector<std::string> answers(const EpisodeSet& set, const VideoOptions& options) {
  const bool objects = kEpisodeLabelNames.find(options.label) == EpisodeLabel::object;
  std::vector<std::string> result(static_cast<size_t>(set.size()));
  for (int64_t i = 0; i < set.size(); ++i) {
    TORCH_CHECK(!objects || !set.summary(i).names.empty(), "open_videos: ", set.summary(i).file,
                ": label must be task where an episode has no object, got object, and episode ", set.summary(i).place,
                " has none");
    result[static_cast<size_t>(i)] = set.summary(i).kind;
  }
  if (!objects) return result;
  at::parallel_for(0, set.size(), 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) result[static_cast<size_t>(i)] = most_moved_object(set.load(i));
  });
  return result;
}

}  // namespace

VideoPtr open_episode_clips(const VideoOptions& options, Split split) {
  EpisodeSet set(options.path);
  const std::vector<std::string> names = answers(set, options);
  const std::set<std::string> classes(names.begin(), names.end());
  VideoInfo info{.name = "episodes " + options.path,
                 .classes = {classes.begin(), classes.end()},
                 .clip_shape = {options.frames, 3, options.image_size, options.image_size}};
  // Kinds take turns in a set, so that both halves have as many of each. All views of an episode are in the same part.
  const int64_t cut = set.size() - set.size() / 5;
  TORCH_CHECK(options.validation == 0 || options.validation < cut, "open_videos: validation must be below the ", cut,
              " training episodes, got ", options.validation);
  std::vector<Split> parts(static_cast<size_t>(set.size()), Split::train);
  std::fill(parts.begin() + cut, parts.end(), Split::test);
  const std::vector<int64_t> order = random_order(cut, options.seed, 0, DrawFor::split);
  for (int64_t i = 0; i < options.validation; ++i) {
    parts[static_cast<size_t>(order[static_cast<size_t>(i)])] = Split::validation;
  }
  std::vector<View> views;
  for (int64_t i = 0; i < set.size(); ++i) {
    if (parts[static_cast<size_t>(i)] != split) continue;
    const auto place = std::distance(classes.begin(), classes.find(names[static_cast<size_t>(i)]));
    for (int64_t camera = 0; camera < set.summary(i).cameras; ++camera) views.push_back({i, camera, place});
  }
  TORCH_CHECK(!views.empty(), "open_videos: ", options.path, ": there must be at least 5 episodes, got ", set.size());
  info.size = std::ssize(views);
  return std::make_shared<EpisodeClips>(std::move(info), std::move(set), std::move(views));
}

}  // namespace topomask
