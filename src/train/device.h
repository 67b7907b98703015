#pragma once

#include <c10/core/Device.h>

#include <string>

#include "core/internal_api.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// Whether this process can compute on it: cpu always, cuda where torch finds such a GPU.
bool available(const at::Device& device);

/// The device called `name`: cpu, cuda or cuda:N. Any other name, and a GPU that is not there, is refused with what to
/// do about it; `what` names the option in errors, such as "train: train.device".
at::Device usable_device(const std::string& what, const std::string& name);

}  // namespace topomask
