#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness.h"
#include "topomask/attention.h"

// Suite `masks`: every family by itself, `masks/<family>/N:<nodes>/<what>/<pass>`. A family is one file here that
// registers its cases; no list is edited.

namespace topomask::bench {

/// At namespace scope of a family's file: `const MaskFamily registered(cases);`.
struct MaskFamily {
  explicit MaskFamily(std::function<std::vector<Case>()> cases);
};

/// The widths of one head that the suite measures with: m = d.
inline constexpr int64_t kHeadWidth = 64;

/// `forward` or `forward_backward` of attention by a route, float32, one head of width kHeadWidth, identity features;
/// the backward pass is in q, k, v and the mask's parameters. Checked against the dense route where N ≤ 4096.
Prepared attention_case(const MaskPtr& mask, Route route, const std::string& pass);

/// Forward cases of attention by the mask's own route and by the dense one over N = 64 … 4096, from which the report
/// reads where one overtakes the other: `<route>_attention` and `dense_attention`. `make` takes the number of nodes, a
/// power of four.
std::vector<Case> crossover_cases(const std::string& family, const std::function<MaskPtr(int64_t nodes)>& make,
                                  Route route);

/// M·X by `product` for X of that many columns, checked against mask->matmul.
Prepared product_case(const MaskPtr& mask, int64_t columns,
                      const std::function<at::Tensor(const at::Tensor& x)>& product);

}  // namespace topomask::bench
