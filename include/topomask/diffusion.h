#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "topomask/export.h"
#include "topomask/graph.h"
#include "topomask/mask.h"

namespace TOPOMASK_API topomask {

/// The T of exp(−λT), from the weighted adjacency A of a graph and its row sums D.
enum class Generator {
  adjacency,             ///< T = −A: exp(λA) counts walks
  laplacian,             ///< T = D − A: the heat kernel
  normalised_laplacian,  ///< T = I − D^{-1/2} A D^{-1/2}, 0 in the rows of isolated nodes
};

enum class DiffusionMethod {
  chebyshev,  ///< a polynomial of T whose degree follows from λ, the spectrum of T and the tolerance
  /// A Krylov space of its own for every column, as large as the column needs: often fewer products with T, but vectors
  /// to keep and orthogonalise. For a few columns.
  lanczos,
};

struct DiffusionOptions {
  Generator generator = Generator::laplacian;
  double tolerance = 1e-6;  ///< of M·x, relative to ‖M‖·‖x‖, for every column x
  DiffusionMethod method = DiffusionMethod::chebyshev;
};

/// M = exp(−λT) for an undirected graph. An isolated node's row is that of I.
///
/// lambda [] or [H], one per head, ≥ 0, of the dtype of the graph's weights; learnable, ∂M/∂λ = −T·M. The weights of
/// the graph are learnable too where they require grad (`graph.with_weights(w)`), through D as well: each stored entry
/// of A is a parameter of its own, in CSR order, and T and its spectrum follow changes made to w in place, also after w
/// was frozen; T of weights that do not require grad when the mask is made is made once. Changes must keep A symmetric,
/// which one parameter for both entries of an edge does: w = edge_weights.index_select(0, edge_of_entry). The gradient
/// goes through the Chebyshev polynomial for either method: about six times the work of M·x, and memory for 3√K tensors
/// like x. Chebyshev (Druskin and Knizhnerman 1989): K·(|A| + 3N) multiply-adds per column, K the least degree with
/// 2Σ_{k>K} e^{−z}I_k(z) ≤ tolerance, z = λ(λ_max − λ_min)/2: about √(2z·log(2/tolerance)) where z is large. The bounds
/// of the spectrum come from Gershgorin's discs and some steps of Lanczos on first use of the graph.
MaskPtr diffusion_mask(const Graph& graph, const at::Tensor& lambda, const DiffusionOptions& options = {});

/// The degree K above for the largest λ: how many sparse products M·x takes. Only for masks made by diffusion_mask with
/// DiffusionMethod::chebyshev.
int64_t chebyshev_degree(const Mask& mask);

/// exp(−λT) on the Cartesian product of undirected graphs (node (i, j) has index i·|b| + j): the Kronecker product of
/// the factors' exponentials, exact, N·Σn_s multiply-adds per column after one eigendecomposition of each factor.
/// T is the adjacency or the Laplacian: the normalised Laplacian of a product is not a sum of those of its factors.
/// Factors whose weights require grad are refused: diffusion_mask of their cartesian_product has that gradient.
MaskPtr product_diffusion_mask(const std::vector<Graph>& factors, const at::Tensor& lambda,
                               Generator generator = Generator::laplacian);

/// exp(−λL) on the hypercube of 2^dimensions nodes (neighbours differ in one bit), in closed form:
/// M_ij = ((1 + e^{−2λ})/2)^d · tanh(λ)^Hamming(i, j), a 2×2 factor per dimension. O(N·d) per column.
MaskPtr hypercube_diffusion_mask(int64_t dimensions, const at::Tensor& lambda);

/// M = exp(λ·U·Vᵀ) = I + U·λφ₁(λVᵀU)·Vᵀ, φ₁(z) = (e^z − 1)/z: diffusion along an adjacency A ≈ UVᵀ of rank r, as
/// random_fourier_factors makes it from points (Choromanski et al. 2023). u, v [N, r] and lambda [] or [H], one dtype,
/// all learnable. 2N·r + r² multiply-adds per column, and O(r³) per call.
MaskPtr low_rank_diffusion_mask(const at::Tensor& u, const at::Tensor& v, const at::Tensor& lambda);

enum class NeighbourKernel {
  gaussian,  ///< exp(−‖x−y‖²/(2·radius²))
  /// 1 where every coordinate of x − y is within the radius and 0 elsewhere, with edges blurred by a Gaussian of
  /// standard deviation radius/2: ∏_c ½[erf((z_c+ε)/(√2 s)) − erf((z_c−ε)/(√2 s))], z = x − y.
  box,
};

struct FourierOptions {
  double radius = 1.0;    ///< ε
  int64_t features = 64;  ///< random frequencies; the rank is twice that
  NeighbourKernel kernel = NeighbourKernel::gaussian;
  uint64_t seed = 0;
};

/// A_ij ≈ u_i·v_j for a kernel of x_i − x_j that is near 1 for neighbours and near 0 for others.
struct FourierFactors {
  at::Tensor u, v;  ///< [N, 2·features], of the dtype of the points
};

/// Random Fourier features of points [N, dims], float32 or float64: unbiased, error O(1/√features), the box's with a
/// constant that grows as 1.6^dims. Differentiable in the points.
FourierFactors random_fourier_factors(const at::Tensor& points, const FourierOptions& options = {});

}  // namespace topomask
