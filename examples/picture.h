#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace topomask::examples {

/// Writes panels [rows, cols] side by side, in rows of `across`, as one PNG: 0 dark to 1 bright, NaN grey, each cell
/// `scale` pixels wide. Through a temporary name, so that a file is whole or absent.
void write_panels(const std::string& path, const std::vector<at::Tensor>& panels, int64_t across, int64_t scale);

}  // namespace topomask::examples
