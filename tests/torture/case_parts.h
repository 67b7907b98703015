#pragma once

#include "torture/expected.h"
#include "torture/inputs.h"
#include "torture/judge.h"
#include "torture/masks.h"

namespace topomask::torture {

/// What every kind of case starts from.
struct Setting {
  Draw& draw;
  at::Device device;
  at::ScalarType dtype;  ///< of q, k and v
  DrawnMask drawn;       ///< on the CPU
  MaskPtr mask;          ///< where it is tried
  Tolerance tolerance;
  std::vector<at::Tensor> doubles = {};  ///< the leaves of the mask for the reference
  MaskValue value = {};                  ///< M
};

/// Leaves of the mask that require a gradient, in double, and M from them; after the last change of a leaf.
void make_reference(Setting& setting);

/// Gradients of M's parameters against the reference: `scale` of ∂L/∂M_ij with any leading dimensions, `got` the
/// gradients of the leaves that require one, in their order.
void judge_parameters(const Setting& setting, Judge& judge, const std::vector<at::Tensor>& got,
                      const std::vector<at::Tensor>& want, const at::Tensor& scale);

/// Indices of the leaves of the mask that require a gradient.
std::vector<size_t> learnt(const DrawnMask& drawn);

/// Gradients of ⟨output, cotangent⟩, zeros where an input has no part in it.
std::vector<at::Tensor> gradients_of(const at::Tensor& output, const at::Tensor& cotangent,
                                     const std::vector<at::Tensor>& inputs, bool keep = false);

/// +1 and −1.
at::Tensor signs_like(const Draw& draw, const std::string& name, const at::Tensor& x);

/// Dimensions before [N, C]: none, a batch, heads, several; the last one is H where the mask has heads.
std::vector<int64_t> draw_leading(Draw& draw, int64_t heads);
std::string shape_text(const std::vector<int64_t>& shape);

void run_products(Setting& setting, Judge& judge, std::string& what);  ///< M·x and Mᵀ·x
void run_forms(Setting& setting, Judge& judge, std::string& what);     ///< dense(), sparse(), factors(), counts()
/// Kernel attention and softmax attention; returns the operation and its route.
std::string run_attention(Setting& setting, Judge& judge, std::string& what);
std::string run_softmax(Setting& setting, Judge& judge, std::string& what, bool additive);

}  // namespace topomask::torture
