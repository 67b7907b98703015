#include "core/option_checks.h"
#include "topomask/data/video_options.h"

namespace topomask {

void VideoOptions::check(const std::string& origin) const {
  const OptionChecks check(origin);
  constexpr int64_t kMostClips = (int64_t{1} << 32) - 1;  // clips are numbered by 32 bits in what is drawn for them
  check.one_of("kind", kind, {"moving", "synthetic", "frame_folder", "video_folder", "episodes", "radhar"});
  check.within("frames", frames, 1, 4096);
  check.within("image_size", image_size, 1, 4096);
  if (kind == "episodes") {
    check.that(label.empty() || label == "task" || label == "object", "label", "task or object of episodes, got ",
               label);
  } else if (kind == "moving" || kind == "synthetic") {
    check.that(label.empty() || label == "class" || label == "motion" || label == "both", "label",
               "class, motion or both of images in motion, got ", label);
  } else {
    check.that(label.empty(), "label", "empty for kind ", kind, ", whose clips have one label, got ", label);
  }
  check.within("window", window, 1, 1 << 20);
  check.within("stride", stride, 1, 1 << 20);
  check.within("validation", validation, 0, kMostClips);
  check.within("synthetic_train", synthetic_train, 0, kMostClips);
  check.within("synthetic_test", synthetic_test, 0, kMostClips);
  check.within("limit", limit, 0, kMostClips);
  check.within("workers", workers, 0, 1024);
}

}  // namespace topomask
