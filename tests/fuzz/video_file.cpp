#include "data/video/container.h"
#include "fuzz/harness.h"

FUZZ_TARGET(video_file) {
  using namespace topomask;
  static fuzz::MemoryFile file("video_file");
  const std::string& path = file.put(fuzz::text_of(data, size));
  fuzz::run(path, [&] {
    const VideoFile video(path);
    fuzz::require(video.frames() > 0 && video.height() > 0 && video.width() > 0, "a video without frames or pixels");
    for (int64_t i = 0; i < video.frames() && i < 4; ++i) {
      fuzz::require(video.read(i).size(0) == 3, "a frame without three channels");
    }
  });
}
