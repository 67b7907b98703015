#include <ATen/ATen.h>

#include "data/video/class_folders.h"
#include "topomask/data/image.h"

namespace topomask {
namespace {

bool is_frame(const std::filesystem::path& path) {
  return has_extension(path, {".jpg", ".jpeg", ".png"});
}

struct Recording {
  std::vector<std::string> frames;
  int64_t label;
};

class FrameFolder final : public VideoDataset {
 public:
  FrameFolder(VideoInfo info, std::vector<Recording> recordings)
      : VideoDataset(std::move(info)), recordings_(std::move(recordings)) {}

  int64_t read(int64_t index, uint8_t* clip) const override {
    const Recording& recording = recordings_[static_cast<size_t>(index)];
    const auto& [frames, channels, size, width] = clip_shape();
    for (const int64_t frame : chosen_frames(std::ssize(recording.frames), frames)) {
      write_frame(read_image(recording.frames[static_cast<size_t>(frame)], size), size, clip);
      clip += channels * size * width;
    }
    return recording.label;
  }

 private:
  std::vector<Recording> recordings_;
};

}  // namespace

VideoPtr open_frame_folder(const VideoOptions& options, bool test) {
  const ClassFolders folders(
      options, test, [](const std::filesystem::path& path) { return std::filesystem::is_directory(path); },
      "train/CLASS/CLIP/*.jpg and val/CLASS/CLIP/*.jpg (or .png)");
  std::vector<Recording> recordings;
  for (const auto& [clip, label] : folders.members) {
    Recording recording{.label = label};
    for (const auto& frame : entries_of(clip, is_frame)) recording.frames.push_back(frame.string());
    TORCH_CHECK(!recording.frames.empty(), "open_videos: ", clip.string(), ": no .jpg, .jpeg or .png file in it");
    recordings.push_back(std::move(recording));
  }
  TORCH_CHECK(!recordings.empty(), "open_videos: ", folders.half.string(),
              ": no folder of frames in its class folders");
  VideoInfo info{.name = "frame_folder " + std::filesystem::path(options.path).lexically_normal().string(),
                 .size = std::ssize(recordings),
                 .classes = folders.classes,
                 .clip_shape = {options.frames, 3, options.image_size, options.image_size}};
  return std::make_shared<FrameFolder>(std::move(info), std::move(recordings));
}

}  // namespace topomask
