#pragma once

#include "core/enum_names.h"
#include "topomask/diffusion.h"
#include "topomask/grf.h"
#include "topomask/toeplitz.h"

namespace topomask {

inline constexpr EnumNames<Diagonal, 2> kDiagonalNames{{"shared", "debiased"}};
inline constexpr EnumNames<Causality, 3> kCausalityNames{{"none", "row_major", "first_axis"}};
inline constexpr EnumNames<Generator, 3> kGeneratorNames{{"adjacency", "laplacian", "normalised_laplacian"}};
inline constexpr EnumNames<DiffusionMethod, 2> kDiffusionMethodNames{{"chebyshev", "lanczos"}};
inline constexpr EnumNames<NeighbourKernel, 2> kNeighbourKernelNames{{"gaussian", "box"}};

}  // namespace topomask
