#pragma once

#include <c10/util/Exception.h>

#include <stdexcept>
#include <string>

#include "topomask/attention.h"

namespace topomask::torture {

/// A route that was asked for by name cannot take the case, by a limit that is documented.
struct RefusedByDesign : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Whether the error says that rows are wider than the sparse kernels on CUDA take, with numbers that bear it out.
bool is_row_limit(const std::string& error);

/// Calls f. The row limit of the sparse route becomes RefusedByDesign where that route was asked for by name; the
/// planner is to know the limit, so that the same error from Route::automatic stays an error.
template <class F>
auto with_refusals(Route route, const F& f) {
  try {
    return f();
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    if (route == Route::sparse && is_row_limit(text)) throw RefusedByDesign(text);
    throw;
  }
}

}  // namespace topomask::torture
