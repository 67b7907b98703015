#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "topomask/data/dataset.h"
#include "topomask/data/video_options.h"
#include "topomask/export.h"

namespace TOPOMASK_API topomask {

struct VideoBatch {
  at::Tensor clips;   ///< uint8 [B, T, C, H, W]
  at::Tensor labels;  ///< int64 [B]
};

/// What describes a data set, apart from its clips.
struct VideoInfo {
  std::string name;
  int64_t size = 0;
  std::vector<std::string> classes;        ///< a label is an index into this list
  std::array<int64_t, 4> clip_shape = {};  ///< T, C, H, W
};

/// Labelled clips of one shape. Immutable: `batch` may be called from any number of threads.
class VideoDataset {
 public:
  virtual ~VideoDataset() = default;

  const VideoInfo& info() const { return info_; }
  int64_t size() const { return info_.size; }
  const std::vector<std::string>& classes() const { return info_.classes; }
  const std::array<int64_t, 4>& clip_shape() const { return info_.clip_shape; }

  /// The clips at these indices, in this order. An index outside [0, size) is an error; so is a file that cannot be
  /// read, which the error names.
  VideoBatch batch(at::IntArrayRef indices) const;

  /// Clip `index`, which is in range, into `clip`, T·C·H·W bytes; returns its label.
  virtual int64_t read(int64_t index, uint8_t* clip) const = 0;

 protected:
  explicit VideoDataset(VideoInfo info) : info_(std::move(info)) {}

 private:
  VideoInfo info_;
};

using VideoPtr = std::shared_ptr<const VideoDataset>;

// clang-format off
/// Opens clips by VideoOptions::kind:
///
///   kind         | in the folder `path`                              | clips
///   -------------|---------------------------------------------------|---------------------------------------------
///   moving       | an IDX data set, e.g. Fashion-MNIST               | its images in motion, see moving_clips()
///   synthetic    | nothing: images of 16 x 16 pixels are generated   | likewise; image_size at least 24
///   frame_folder | train/CLASS/CLIP/*, val/CLASS/CLIP/* (or test/…), | [T, 3, S, S], decoded at use
///                | .jpg .png                                         |
///   video_folder | train/CLASS/*, val/CLASS/* (or test/…), .avi      | [T, 3, S, S], decoded at use
///                | (JPEG or uncompressed frames) .y4m                |
///   episodes     | shards of robot data; the last fifth of them is   | a clip for each camera, by the kind of episode
///                | the test half                                     | ("task") or the object that moves most ("object")
///   radhar       | (the path is the npz file)                        | [T, 15, S, S]: points in voxels, see docs/data.md
///
/// Split::train are the clips of the training half less the validation clips, `limit` of them where it is not 0. The
/// views of an episode show the same scene: `validation` counts episodes, and no episode has views in two splits. The
/// windows of radhar overlap: `validation` counts its recordings, about the same fraction of each activity and at least
/// one of each that has two, and no recording has windows in two splits.
// clang-format on
VideoPtr open_videos(const VideoOptions& options, Split split);

/// Each image of a data set, not larger than the canvas, moving over a black canvas of image_size: in a straight line
/// to the right, to the left, down or up, or around a circle, clockwise or anticlockwise. Motion, place and distance
/// are drawn from (seed, stream, index): a clip is the same whenever it is read. Labels are those of the images, one of
/// the six motions, or both ("trouser, left").
VideoPtr moving_clips(DatasetPtr images, const VideoOptions& options, uint32_t stream = 0);

}  // namespace topomask
