#include "core/option_checks.h"
#include "data/video/names.h"
#include "topomask/data/video_options.h"

namespace topomask {
namespace {

void check_label(const OptionChecks& check, VideoKind kind, const std::string& label) {
  switch (kind) {
    case VideoKind::episodes:
      check.that(label.empty() || kEpisodeLabelNames.find(label), "label", kEpisodeLabelNames.listed(),
                 " of episodes, got ", label);
      break;
    case VideoKind::moving:
    case VideoKind::synthetic:
      check.that(label.empty() || kMotionLabelNames.find(label), "label", kMotionLabelNames.listed(),
                 " of images in motion, got ", label);
      break;
    case VideoKind::frame_folder:
    case VideoKind::video_folder:
    case VideoKind::radhar:
      check.that(label.empty(), "label", "empty for kind ", kVideoKindNames[kind], ", whose clips have one label, got ",
                 label);
  }
}

}  // namespace

void VideoOptions::check(const std::string& origin) const {
  const OptionChecks check(origin);
  constexpr int64_t kMostClips = (int64_t{1} << 32) - 1;  // clips are numbered by 32 bits in what is drawn for them
  check.one_of("kind", kind, kVideoKindNames.all());
  check.within("frames", frames, 1, 4096);
  check.within("image_size", image_size, 1, 4096);
  check_label(check, *kVideoKindNames.find(kind), label);
  check.within("window", window, 1, 1 << 20);
  check.within("stride", stride, 1, 1 << 20);
  check.within("validation", validation, 0, kMostClips);
  check.within("synthetic_train", synthetic_train, 0, kMostClips);
  check.within("synthetic_test", synthetic_test, 0, kMostClips);
  check.within("limit", limit, 0, kMostClips);
  check.within("workers", workers, 0, 1024);
}

}  // namespace topomask
