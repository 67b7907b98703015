#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>

#include "data/video/readers.h"
#include "topomask/data/image.h"

namespace topomask {
namespace {

namespace fs = std::filesystem;

bool is_frame(const fs::path& path) {
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

bool is_folder(const fs::path& path) {
  return fs::is_directory(path);
}

/// Names inside a folder, in an order that does not depend on the file system; digits without leading zeros sort as the
/// numbers they are, as frames are often named.
std::vector<fs::path> entries_of(const fs::path& folder, bool (*wanted)(const fs::path&)) {
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (wanted(entry.path())) entries.push_back(entry.path());
  }
  std::sort(entries.begin(), entries.end(), [](const fs::path& a, const fs::path& b) {
    const std::string x = a.filename().string(), y = b.filename().string();
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    size_t i = 0, j = 0;
    while (i < x.size() && j < y.size()) {
      if (is_digit(x[i]) && is_digit(y[j])) {
        while (i < x.size() && x[i] == '0') ++i;
        while (j < y.size() && y[j] == '0') ++j;
        size_t m = i, n = j;
        while (m < x.size() && is_digit(x[m])) ++m;
        while (n < y.size() && is_digit(y[n])) ++n;
        if (m - i != n - j) return m - i < n - j;
        if (const int order = x.compare(i, m - i, y, j, n - j); order != 0) return order < 0;
        i = m;
        j = n;
        continue;
      }
      if (x[i] != y[j]) return x[i] < y[j];
      ++i;
      ++j;
    }
    if (x.size() - i != y.size() - j) return x.size() - i < y.size() - j;
    return x < y;  // they differ in leading zeros alone
  });
  return entries;
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

fs::path test_half(const fs::path& root) {
  for (const char* name : {"val", "test", "validation"}) {
    if (fs::is_directory(root / name)) return root / name;
  }
  return root / "val";
}

}  // namespace

VideoPtr open_frame_folder(const VideoOptions& options, bool test) {
  const fs::path root = options.path, train = root / "train", half = test ? test_half(root) : train;
  for (const fs::path& folder : {train, half}) {
    TORCH_CHECK(fs::is_directory(folder), "open_videos: ", folder.string(),
                " is not a folder; frame_folder wants train/CLASS/CLIP/*.jpg and val/CLASS/CLIP/*.jpg (or .png)");
  }
  VideoInfo info{.name = "frame_folder " + root.lexically_normal().string(),
                 .clip_shape = {options.frames, 3, options.image_size, options.image_size}};
  for (const fs::path& folder : entries_of(train, is_folder)) info.classes.push_back(folder.filename().string());
  std::vector<Recording> recordings;
  for (const fs::path& folder : entries_of(half, is_folder)) {
    const auto place = std::find(info.classes.begin(), info.classes.end(), folder.filename().string());
    TORCH_CHECK(place != info.classes.end(), "open_videos: ", folder.string(), ": there is no such class in ",
                train.string());
    for (const fs::path& clip : entries_of(folder, is_folder)) {
      Recording recording{.label = place - info.classes.begin()};
      for (const fs::path& frame : entries_of(clip, is_frame)) recording.frames.push_back(frame.string());
      TORCH_CHECK(!recording.frames.empty(), "open_videos: ", clip.string(), ": no .jpg, .jpeg or .png file in it");
      recordings.push_back(std::move(recording));
    }
  }
  TORCH_CHECK(!recordings.empty(), "open_videos: ", half.string(), ": no folder of frames in its class folders");
  info.size = std::ssize(recordings);
  return std::make_shared<FrameFolder>(std::move(info), std::move(recordings));
}

}  // namespace topomask
