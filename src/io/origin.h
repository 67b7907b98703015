#pragma once

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <string>

#include "core/internal_api.h"

namespace TOPOMASK_INTERNAL_API topomask {
namespace io {

/// Who reads or writes what: the start of every error text.
struct Origin {
  std::string op;    ///< "read_snap"
  std::string path;  ///< as the caller spelt it
};

template <typename... Args>
[[noreturn]] void fail(const Origin& origin, const Args&... args) {
  C10_THROW_ERROR(Error, c10::str(origin.op, ": ", origin.path, ": ", args...));
}

}  // namespace io
}  // namespace topomask
