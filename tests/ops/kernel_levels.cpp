#include <ATen/ATen.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

#include "core/simd.h"
#include "ops/factored_product/cpu_kernel.h"
#include "ops/sparse_attention/cpu_kernel.h"
#include "ops/spmm/cpu_kernel.h"
#include "support/sparse_reference.h"

// Every version of a kernel, not only the one this processor gets, found by the names the compiler gives them.

namespace topomask {
namespace {

using namespace topomask::testing;
using at::Tensor;

constexpr int64_t kNodes = 37, kWidth = 48;

template <class Args>
using Kernel = void (*)(const Args&, int64_t, int64_t);

/// The versions up to the processor's level, lowest first; empty where the compiler names them otherwise.
template <class Args>
std::vector<Kernel<Args>> versions_of(const std::string& op, const std::string& kernel, const std::string& args,
                                      bool is_float) {
  const std::string name = kernel + "_versions";
  const auto mangled = [](const std::string& part) { return std::to_string(part.size()) + part; };
  const std::string symbol =
      "_ZN8topomask3ops" + mangled(op) + mangled(name) + "ERKNS1_" + mangled(args) + (is_float ? "IfEEll" : "IdEEll");
  std::vector<Kernel<Args>> result;
  for (const auto& [level, suffix] : {std::pair{1, ""}, {3, ".arch_x86_64_v3"}, {4, ".arch_x86_64_v4"}}) {
    void* address = dlsym(RTLD_DEFAULT, (symbol + suffix).c_str());
    if (address && level <= simd_level()) result.push_back(reinterpret_cast<Kernel<Args>>(address));
  }
  return result;
}

/// The same call through every version, `run(kernel)` giving the tensors it wrote.
template <class Args, class Run>
void expect_versions_agree(const std::string& op, const std::string& kernel, const std::string& args, bool is_float,
                           const Run& run) {
  SCOPED_TRACE(kernel + (is_float ? " float" : " double"));
  const auto versions = versions_of<Args>(op, kernel, args, is_float);
  if (versions.empty()) GTEST_SKIP() << "this compiler names the versions of a function otherwise";
  const std::vector<Tensor> expected = run(versions[0]);
  for (const auto version : versions) expect_close(run(version), expected, is_float ? 1e-5 : 1e-13);
}

template <class T>
struct Data {
  static constexpr bool kFloat = std::is_same_v<T, float>;
  PatternPtr pattern = random_pattern(kNodes, kNodes, 0.3, 1);
  at::ScalarType dtype = kFloat ? at::kFloat : at::kDouble;
  Tensor q = random_tensor({kNodes, kWidth}, 2, true).to(dtype), k = random_tensor({kNodes, kWidth}, 3, true).to(dtype);
  Tensor v = random_tensor({kNodes, kWidth}, 4).to(dtype),
         values = random_tensor({pattern->entries()}, 5, true).to(dtype);
  Tensor buffer = at::zeros({2, ops::sparse_attention::kBlockEntries + 16}, dtype);

  const int64_t* offsets() const { return pattern->offsets().template const_data_ptr<int64_t>(); }
  const int32_t* columns() const { return pattern->columns().template const_data_ptr<int32_t>(); }
  T* at(const Tensor& tensor) const { return tensor.template mutable_data_ptr<T>(); }
  Tensor poisoned(at::IntArrayRef shape) const { return at::full(shape, std::nan(""), dtype); }
};

template <class T>
class KernelLevels : public ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(KernelLevels, Scalars);

TYPED_TEST(KernelLevels, AgreeOnProducts) {
  using T = TypeParam;
  const Data<T> d;
  expect_versions_agree<ops::spmm::SpmmArgs<T>>("spmm", "spmm_rows", "SpmmArgs", d.kFloat, [&](auto kernel) {
    const Tensor y = d.poisoned({kNodes, kWidth});
    kernel({d.offsets(), d.columns(), nullptr, d.at(d.values), d.at(d.v), d.at(y), kWidth, nullptr}, 0, kNodes);
    return std::vector<Tensor>{y};
  });
  expect_versions_agree<ops::spmm::SddmmArgs<T>>("spmm", "sddmm_rows", "SddmmArgs", d.kFloat, [&](auto kernel) {
    const Tensor out = d.poisoned({d.pattern->entries()});
    kernel({d.offsets(), d.columns(), d.at(d.q), d.at(d.k), d.at(out), kWidth, false, d.at(d.buffer)}, 0, kNodes);
    return std::vector<Tensor>{out};
  });
}

TYPED_TEST(KernelLevels, AgreeOnAttention) {
  using T = TypeParam;
  const Data<T> d;
  for (const std::string name : {"sparse_attention_rows", "sparse_softmax_attention_rows"}) {
    bool streaming = false;  // every other version writes past the caches
    expect_versions_agree<
        ops::sparse_attention::AttentionArgs<T>>("sparse_attention", name, "AttentionArgs", d.kFloat, [&](auto kernel) {
      streaming = !streaming;
      const Tensor out = d.poisoned({kNodes, kWidth}), den = d.poisoned({kNodes}), max = at::zeros({kNodes}, d.dtype);
      const Tensor kept = d.poisoned({d.pattern->entries()});
      kernel({d.offsets(), d.columns(), d.at(d.values), d.at(d.q), d.at(d.k), d.at(d.v), d.at(out), d.at(max),
              d.at(den), kWidth, kWidth, T(0.3), T(1e-6), d.at(d.buffer), d.at(kept), streaming},
             0, kNodes);
      return std::vector<Tensor>{out, den, max, kept};
    });
  }
}

TYPED_TEST(KernelLevels, AgreeOnGradientsOfAttention) {
  using T = TypeParam;
  const Data<T> d;
  const Tensor den = at::ones({kNodes}, d.dtype), max = at::full({kNodes}, 20, d.dtype);
  const Tensor scores = random_tensor({d.pattern->entries()}, 8).to(d.dtype);
  for (const std::string name : {"sparse_attention_backward_rows", "sparse_softmax_attention_backward_rows"}) {
    for (const T* kept : {static_cast<const T*>(nullptr), static_cast<const T*>(d.at(scores))}) {
      bool streaming = false;
      expect_versions_agree<ops::sparse_attention::AttentionBackwardArgs<T>>(
          "sparse_attention", name, "AttentionBackwardArgs", d.kFloat, [&](auto kernel) {
            streaming = !streaming;
            const Tensor grad_q = d.poisoned({kNodes, kWidth}), grad_values = d.poisoned({d.pattern->entries()});
            const Tensor entries = d.poisoned({d.pattern->entries(), 2});
            kernel({d.offsets(),
                    d.columns(),
                    d.at(d.values),
                    d.at(d.v),
                    d.at(d.q),
                    d.at(d.k),
                    d.at(d.v),
                    d.at(max),
                    d.at(den),
                    d.at(grad_q),
                    d.at(grad_values),
                    false,
                    d.at(entries),
                    kWidth,
                    kWidth,
                    T(0.3),
                    T(1e-6),
                    d.at(d.buffer),
                    d.at(d.buffer) + ops::sparse_attention::kBlockEntries + 16,
                    kept,
                    streaming},
                   0, kNodes);
            return std::vector<Tensor>{grad_q, grad_values, entries};
          });
    }
  }
}

TYPED_TEST(KernelLevels, AgreeOnThePassOverColumns) {
  using T = TypeParam;
  const Data<T> d;
  const SparsePattern::Transposed& t = d.pattern->transposed();
  const Tensor entries = random_tensor({d.pattern->entries(), 2}, 9).to(d.dtype);
  bool streaming = false;
  expect_versions_agree<ops::sparse_attention::AttentionColumnArgs<T>>(
      "sparse_attention", "sparse_attention_backward_columns", "AttentionColumnArgs", d.kFloat, [&](auto kernel) {
        streaming = !streaming;
        const Tensor grad_k = d.poisoned({kNodes, kWidth}), grad_v = d.poisoned({kNodes, kWidth});
        kernel({t.offsets.const_data_ptr<int64_t>(), t.columns.const_data_ptr<int32_t>(),
                t.index.const_data_ptr<int64_t>(), d.at(entries), d.at(d.v), d.at(d.q), d.at(grad_k), d.at(grad_v),
                kWidth, kWidth, d.at(d.buffer), d.at(d.buffer) + ops::sparse_attention::kBlockEntries + 16, streaming},
               0, kNodes);
        return std::vector<Tensor>{grad_k, grad_v};
      });
}

TYPED_TEST(KernelLevels, AgreeOnTheFactoredProduct) {
  using T = TypeParam;
  const Data<T> d;
  constexpr int64_t kFeatures = 2;
  const Tensor z = random_tensor({kNodes, kFeatures * kWidth}, 7).to(d.dtype);
  expect_versions_agree<ops::factored_product::GatherContractArgs<T>>(
      "factored_product", "gather_contract_rows", "GatherContractArgs", d.kFloat, [&](auto kernel) {
        const Tensor product = d.poisoned({kNodes, kWidth}), grad_features = at::zeros({kNodes, kWidth}, d.dtype);
        const Tensor grad_values = d.poisoned({d.pattern->entries()}), gathered = d.poisoned({2 * kFeatures * kWidth});
        kernel({d.offsets(), d.columns(), d.at(d.values), d.at(d.q), kWidth, kFeatures, d.at(z), d.at(d.v), kWidth,
                d.at(product), d.at(grad_features), d.at(grad_values), false, false, d.at(gathered), d.at(d.buffer)},
               0, kNodes);
        return std::vector<Tensor>{product, grad_features, grad_values};
      });
}

}  // namespace
}  // namespace topomask
