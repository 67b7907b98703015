#include <ATen/ATen.h>

#include "data/video/class_folders.h"
#include "data/video/container.h"

namespace topomask {
namespace {

struct LabelledFile {
  VideoFile file;
  int64_t label;
};

class VideoFolder final : public VideoDataset {
 public:
  VideoFolder(VideoInfo info, std::vector<LabelledFile> files)
      : VideoDataset(std::move(info)), files_(std::move(files)) {}

  int64_t read(int64_t index, uint8_t* clip) const override {
    const auto& [file, label] = files_[static_cast<size_t>(index)];
    const auto& [frames, channels, size, width] = clip_shape();
    for (const int64_t frame : chosen_frames(file.frames(), frames)) {
      write_frame(file.read(frame, size), size, clip);
      clip += channels * size * width;
    }
    return label;
  }

 private:
  std::vector<LabelledFile> files_;
};

}  // namespace

VideoPtr open_video_folder(const VideoOptions& options, bool test) {
  const ClassFolders folders(
      options, test,
      [](const std::filesystem::path& path) {
        return has_extension(path, {".avi", ".y4m"});
      },
      "train/CLASS/*.avi and val/CLASS/*.avi (or .y4m)");
  std::vector<LabelledFile> files;
  for (const auto& [path, label] : folders.members) files.push_back({VideoFile(path.string()), label});
  TORCH_CHECK(!files.empty(), "open_videos: ", folders.half.string(), ": no .avi or .y4m file in its class folders");
  VideoInfo info{.name = "video_folder " + std::filesystem::path(options.path).lexically_normal().string(),
                 .size = std::ssize(files),
                 .classes = folders.classes,
                 .clip_shape = {options.frames, 3, options.image_size, options.image_size}};
  return std::make_shared<VideoFolder>(std::move(info), std::move(files));
}

}  // namespace topomask
