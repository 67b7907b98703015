#include <ATen/ATen.h>

#include <set>

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

}  // namespace

VideoPtr open_episode_clips(const VideoOptions& options, bool test) {
  EpisodeSet set(options.path);
  std::set<std::string> kinds;
  for (int64_t i = 0; i < set.size(); ++i) kinds.insert(set.summary(i).kind);
  VideoInfo info{.name = "episodes " + options.path,
                 .classes = {kinds.begin(), kinds.end()},
                 .clip_shape = {options.frames, 3, options.image_size, options.image_size}};
  // Kinds take turns in a set, so that both parts have as many of each. Both views of an episode are in the same part.
  const int64_t cut = set.size() - set.size() / 5;
  std::vector<View> views;
  for (int64_t i = test ? cut : 0; i < (test ? set.size() : cut); ++i) {
    const auto place = std::distance(kinds.begin(), kinds.find(set.summary(i).kind));
    for (int64_t camera = 0; camera < set.summary(i).cameras; ++camera) views.push_back({i, camera, place});
  }
  TORCH_CHECK(!views.empty(), "open_videos: ", options.path, ": there must be at least 5 episodes, got ", set.size());
  info.size = std::ssize(views);
  return std::make_shared<EpisodeClips>(std::move(info), std::move(set), std::move(views));
}

}  // namespace topomask
