#pragma once

#include <cstdint>
#include <string>

#include "topomask/export.h"
#include "topomask/nn/options.h"

namespace TOPOMASK_API topomask {

/// A ViViT: the fields of a ViT, which are those of its spatial or joint encoder, and those of time.
struct ViViTOptions : ViTOptions {
  ViViTOptions() {
    patch_size = 16;
    variant = "softmax_grf";
  }

  int64_t frames = 0;
  int64_t tubelet = 2;
  std::string attention = "factorised";
  int64_t temporal_depth = 4;
  std::string temporal_variant = "softmax";

  /// ViTOptions::check, and: tubelet >= 1, frames and temporal_depth >= 0, names among those known. frames may be 0
  /// here, which means as the data has them.
  void check(const std::string& origin = "ViViT: ") const;

  int64_t steps() const { return frames / tubelet; }  ///< t: tubelets along time
  bool joint() const { return attention == "joint"; }
};

template <class Visitor>
void visit(Visitor& v, ViViTOptions& o) {
  visit(v, static_cast<ViTOptions&>(o));
  v("frames", o.frames, "frames of a clip; 0: as the data has them");
  v("tubelet", o.tubelet, "frames of a token; it divides frames");
  v("attention", o.attention,
    "factorised: a spatial encoder for each step, then one over time; joint: one over all tokens of space and time");
  v("temporal_depth", o.temporal_depth, "factorised: blocks of the encoder over time");
  v("temporal_variant", o.temporal_variant, "factorised: attention over time; masks are over the path of steps");
}

}  // namespace topomask
