#pragma once

#include <ATen/core/Tensor.h>

namespace topomask {

/// A new tensor of many megabytes comes as pages the system has yet to hand out, 4 KiB at a time: at 64 MiB that takes
/// as long as the attention written into it. This asks for pages of 2 MiB there, before anything is written. A hint:
/// without effect on small tensors, on used memory, or where the system does not offer them.
void prefer_large_pages(const at::Tensor& fresh);

}  // namespace topomask
