#pragma once

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <memory>
#include <mutex>
#include <vector>

namespace topomask {

template <class T>
at::Tensor on_device(const std::vector<T>& values, at::Device device) {
  return at::tensor(at::ArrayRef<T>(values), c10::CppTypeToScalarType<T>::value).to(device);
}

/// Copies of something on several devices, each made once and shared while it lives. T has a `device()`.
template <class T>
class PerDevice {
 public:
  template <class Make>
  std::shared_ptr<const T> get(at::Device device, const Make& make) {
    const std::lock_guard lock(mutex_);
    for (const auto& copy : copies_) {
      const auto known = copy.lock();
      if (known && known->device().type() == device.type() && (!device.has_index() || known->device() == device)) {
        return known;
      }
    }
    std::erase_if(copies_, [](const auto& copy) { return copy.expired(); });
    const c10::InferenceMode ordinary(false);  // what is kept may later be saved for a backward pass
    std::shared_ptr<const T> made = make();
    copies_.push_back(made);
    return made;
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<const T>> copies_;
};

}  // namespace topomask
