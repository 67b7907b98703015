#pragma once

#include <cstdint>
#include <vector>

#include "topomask/data/video.h"

namespace topomask {

// The kinds of open_videos that have files of their own; `test` chooses the test half. Errors name the file.

VideoPtr open_frame_folder(const VideoOptions& options, bool test);
VideoPtr open_video_folder(const VideoOptions& options, bool test);
/// Views of an episode show the same scene, and windows of a recording overlap: these readers hold whole episodes and
/// recordings out for validation themselves.
VideoPtr open_episode_clips(const VideoOptions& options, Split split);
VideoPtr open_radar_clips(const VideoOptions& options, Split split);

/// Which of `available` frames a clip of `wanted` shows: the middles of equal parts, in order; a short recording
/// repeats frames.
std::vector<int64_t> chosen_frames(int64_t available, int64_t wanted);

/// Frame uint8 [3, H, W] as [3, size, size] at `out`.
void write_frame(const at::Tensor& frame, int64_t size, uint8_t* out);

}  // namespace topomask
