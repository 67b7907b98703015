#pragma once

#include "core/enum_names.h"

namespace topomask {

/// VideoOptions::kind.
enum class VideoKind { moving, synthetic, frame_folder, video_folder, episodes, radhar };
inline constexpr EnumNames<VideoKind, 6> kVideoKindNames{
    {"moving", "synthetic", "frame_folder", "video_folder", "episodes", "radhar"}};

/// VideoOptions::label of images in motion; empty: motion.
enum class MotionLabel { class_, motion, both };
inline constexpr EnumNames<MotionLabel, 3> kMotionLabelNames{{"class", "motion", "both"}};

/// VideoOptions::label of episodes; empty: task.
enum class EpisodeLabel { task, object };
inline constexpr EnumNames<EpisodeLabel, 2> kEpisodeLabelNames{{"task", "object"}};

}  // namespace topomask
