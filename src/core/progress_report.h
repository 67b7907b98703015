#pragma once

#include <cstdint>
#include <functional>

#include "core/internal_api.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// How far a long computation is: `done` of `total` steps of what `what` names ("walks").
using ProgressFunction = std::function<void(const char* what, int64_t done, int64_t total)>;

/// While it lives, `report_progress` on this thread calls its function. A listener made later takes over until it ends.
class ProgressListener {
 public:
  explicit ProgressListener(ProgressFunction function);
  ~ProgressListener();
  ProgressListener(const ProgressListener&) = delete;
  ProgressListener& operator=(const ProgressListener&) = delete;

 private:
  ProgressFunction function_;
  const ProgressFunction* before_;
};

/// Reports how far a computation of this thread is. Without a listener it costs a comparison.
void report_progress(const char* what, int64_t done, int64_t total);

}  // namespace topomask
