#include "train/device.h"

#include <ATen/Context.h>

#include "core/device_name.h"

namespace topomask {

bool available(const at::Device& device) {
  if (device.is_cpu()) return true;
  return device.is_cuda() && at::hasCUDA() &&
         (!device.has_index() || device.index() < static_cast<int64_t>(at::getNumGPUs()));
}

at::Device usable_device(const std::string& what, const std::string& name) {
  TORCH_CHECK(is_device_name(name), what, " must be cpu, cuda or cuda:N, got '", name, "'");
  const at::Device device(name);
  TORCH_CHECK(available(device), what, " is ", name, ", but ",
              at::hasCUDA() ? c10::str("there are only ", at::getNumGPUs(), " GPUs here: use a lower number")
                            : std::string("torch finds no GPU here: use cpu, or a machine with a GPU, its driver, a "
                                          "CUDA build of torch and topomask built with TOPOMASK_CUDA=ON"));
  return device;
}

}  // namespace topomask
