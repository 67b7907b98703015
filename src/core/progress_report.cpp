#include "core/progress_report.h"

#include <utility>

namespace topomask {
namespace {

thread_local const ProgressFunction* listening = nullptr;

}  // namespace

ProgressListener::ProgressListener(ProgressFunction function) : function_(std::move(function)), before_(listening) {
  listening = &function_;
}

ProgressListener::~ProgressListener() {
  listening = before_;
}

void report_progress(const char* what, int64_t done, int64_t total) {
  if (listening != nullptr) (*listening)(what, done, total);
}

}  // namespace topomask
