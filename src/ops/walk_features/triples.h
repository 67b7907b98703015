#pragma once

#include <ATen/core/Tensor.h>

#include "core/checks.h"

namespace topomask::ops::walk_features {

/// The table's tensors as the operators take them. The bounds of hops and the order of offsets are the table's own.
struct TripleTensors {
  TripleTensors(const char* op, const at::Tensor& like, const char* name, const at::Tensor& hops,
                const at::Tensor& loads, const at::Tensor& offsets) {
    const at::Device device = like.device();
    TORCH_CHECK(like.dim() == 2 && is_real(like.scalar_type()), op, ": ", name,
                " must be float32 or float64 with two dimensions, got ", describe(like));
    TORCH_CHECK(hops.dim() == 1 && hops.scalar_type() == at::kShort && hops.device() == device, op,
                ": hops must be int16 [T] on ", device, ", got ", describe(hops));
    TORCH_CHECK(loads.sizes() == hops.sizes() && loads.scalar_type() == like.scalar_type() && loads.device() == device,
                op, ": loads must be ", like.scalar_type(), " [", hops.size(0), "] on ", device, ", as ", name,
                " and hops say, got ", describe(loads));
    TORCH_CHECK(
        offsets.dim() == 1 && offsets.scalar_type() == at::kLong && offsets.device() == device && offsets.size(0) >= 1,
        op, ": feature_offsets must be int64 [entries + 1] on ", device, ", got ", describe(offsets));
    this->hops = hops.contiguous();
    this->loads = loads.contiguous();
    this->offsets = offsets.contiguous();
    if (!device.is_cpu()) return;  // looking would wait for the device
    const int64_t* offset = this->offsets.const_data_ptr<int64_t>();
    TORCH_CHECK(offset[0] == 0 && offset[entries()] == hops.size(0), op, ": feature_offsets must run from 0 to ",
                hops.size(0), " (the number of triples), got ", offset[0], " to ", offset[entries()]);
  }

  int64_t entries() const { return offsets.size(0) - 1; }

  at::Tensor hops, loads, offsets;
};

}  // namespace topomask::ops::walk_features
