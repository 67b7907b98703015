#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "topomask/export.h"

namespace TOPOMASK_API topomask {

/// What a pixel of `Episode::ids` shows; object b has kFirstObject + b.
inline constexpr int64_t kBackground = 0, kTable = 1, kRobot = 2, kFirstObject = 3;

/// A robot that moves things, seen by C fixed RGB-D cameras at T instants. J joints, P action points, B objects.
///
/// Frame t and row t of every other tensor belong to the same instant. `actions[t]` is the target that the controller
/// had at that instant, `joints[t]` is where the arm was: a model that predicts frame t from frames t−1 and t−2 may
/// look at actions t−2, t−1 and t.
struct Episode {
  std::string kind;                ///< "push", "topple", "lift", "sweep", …
  uint64_t seed = 0;               ///< of the episode: the same seed and settings make the same episode
  double interval = 0;             ///< seconds between frames
  std::vector<std::string> names;  ///< [B], e.g. "box 1", "can", "soft cube"

  at::Tensor rgb;         ///< uint8 [T, C, H, W, 3]
  at::Tensor depth;       ///< float32 [T, C, H, W]: metres along the optical axis (not along the ray); 0: nothing
  at::Tensor ids;         ///< uint8 [T, C, H, W]: kBackground, kTable, kRobot, kFirstObject + object
  at::Tensor intrinsics;  ///< float64 [C, 3, 3]: pixels from camera coordinates, see unproject()
  at::Tensor poses;       ///< float64 [C, 4, 4]: world from camera; x right, y down, z forward
  at::Tensor joints;      ///< float32 [T, J]: radians; of the gripper, if there is one, metres
  at::Tensor actions;     ///< float32 [T, J]: joint targets
  /// float32 [T, P, 3]: points fixed to the arm and its tool where `actions` put them, world.
  at::Tensor action_points;
  at::Tensor bodies;  ///< float64 [T, B, 7]: position and unit quaternion (w, x, y, z) of each object, world

  int64_t frames() const { return rgb.size(0); }
  int64_t cameras() const { return rgb.size(1); }
  int64_t height() const { return rgb.size(2); }
  int64_t width() const { return rgb.size(3); }
  int64_t objects() const { return bodies.size(1); }
};

/// Fails, naming the tensor, where the tensors of an episode have other dtypes, shapes or devices than stated above,
/// are not finite, or have ids beyond the objects.
void check_episode(const Episode& episode);

/// World coordinates of pixels: [..., C, H, W, 3] in the dtype of `depth` [..., C, H, W], for intrinsics [C, 3, 3] and
/// poses [C, 4, 4]. The centre of pixel (row v, column u) is at (u + ½, v + ½): with x = K⁻¹ (u + ½, v + ½, 1)ᵀ ·
/// depth, the point is pose · (x, 1). Where the depth is 0 it is the camera's position. Differentiable in `depth`; any
/// device.
at::Tensor unproject(const at::Tensor& depth, const at::Tensor& intrinsics, const at::Tensor& poses);

/// Which objects have moved between two frames: bool [B], true where the position differs by more than `distance`
/// metres or the orientation by more than `angle` radians.
at::Tensor moved_objects(const Episode& episode, int64_t first, int64_t last, double distance = 0.01,
                         double angle = 0.1);

/// Pixels of frame `last` that show an object that has moved since frame `first`: bool [C, H, W].
at::Tensor moved_pixels(const Episode& episode, int64_t first, int64_t last);

/// What is known of an episode without its tensors being read.
struct EpisodeSummary {
  std::string kind;
  uint64_t seed = 0;
  double interval = 0;
  std::vector<std::string> names;
  int64_t frames = 0, cameras = 0, height = 0, width = 0, joints = 0, action_points = 0;
  int64_t packed_bytes = 0;  ///< in the file
  std::string file;
  int64_t place = 0;  ///< in that file
};

/// Episodes in a file (a shard, *.episodes) or in all shards of a folder, in the order of their names. Opening reads
/// and checks the directories of the shards; load() reads, checks (sizes before memory is allocated, checksums) and
/// unpacks one episode, and may be called from several threads. docs/robot-data.md describes the format.
class EpisodeSet {
 public:
  explicit EpisodeSet(const std::string& path);

  int64_t size() const { return static_cast<int64_t>(summaries_.size()); }
  const EpisodeSummary& summary(int64_t index) const;
  Episode load(int64_t index) const;

  /// Episodes that the tool made and did not keep, by reason ("diverged", "still", …), over all shards.
  const std::map<std::string, int64_t>& dropped() const { return dropped_; }

 private:
  struct Shard;
  std::vector<std::shared_ptr<const Shard>> shards_;
  std::vector<std::pair<int64_t, int64_t>> places_;  ///< shard, episode in it
  std::vector<EpisodeSummary> summaries_;
  std::map<std::string, int64_t> dropped_;
};

/// Writes a shard. It holds the packed episodes in memory and makes the file, whole and under its name, in commit():
/// a shard that exists is complete. Depth is rounded to a tenth of a millimetre (at most 6.5535 m); all else is kept
/// exactly. The same episodes make the same bytes.
class EpisodeWriter {
 public:
  explicit EpisodeWriter(std::string path);
  ~EpisodeWriter();
  EpisodeWriter(const EpisodeWriter&) = delete;
  EpisodeWriter& operator=(const EpisodeWriter&) = delete;

  void add(const Episode& episode);
  void count_dropped(const std::string& reason, int64_t episodes = 1);
  int64_t size() const;  ///< episodes added
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace topomask
