#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <iomanip>
#include <sstream>

#include "masks/interface/mask_answers.h"
#include "theory/suggest_target.h"
#include "topomask/power_series.h"

namespace topomask {
namespace {

/// A mask under another name.
class NamedMask final : public Mask {
 public:
  NamedMask(MaskPtr mask, std::string name) : mask_(std::move(mask)), name_(std::move(name)) {}

  std::string name() const override { return name_; }
  int64_t size() const override { return mask_->size(); }
  int64_t heads() const override { return mask_->heads(); }
  std::optional<at::ScalarType> dtype() const override { return mask_->dtype(); }
  std::optional<at::Device> device() const override { return mask_->device(); }
  std::vector<at::Tensor> parameters() const override { return mask_->parameters(); }
  MaskCounts counts() const override { return mask_->counts(); }
  at::Tensor dense() const override { return mask_->dense(); }
  std::optional<SparseMatrix> sparse() const override { return mask_->sparse(); }
  std::optional<Factors> factors() const override { return mask_->factors(); }
  std::optional<MaskTiles> tiles() const override { return mask_->tiles(); }
  MaskPtr rebuild(const std::vector<at::Tensor>& parameters) const override {
    const MaskPtr mask = mask_->rebuild(parameters);
    return mask ? std::make_shared<NamedMask>(mask, name_) : nullptr;
  }
  MaskPtr to(const at::TensorOptions& target) const override {
    return std::make_shared<NamedMask>(mask_->to(target), name_);
  }
  at::Tensor apply(const at::Tensor& x) const override { return MaskAnswers::apply(*mask_, x); }
  at::Tensor apply_transposed(const at::Tensor& x) const override { return MaskAnswers::apply_transposed(*mask_, x); }
  std::vector<at::Tensor> parameter_gradients(const at::Tensor& x, const at::Tensor& grad) const override {
    return MaskAnswers::parameter_gradients(*mask_, x, grad);
  }

 private:
  MaskPtr mask_;
  std::string name_;
};

std::string name_for(const Suggestion& s) {
  std::ostringstream name;
  name << std::setprecision(3) << "auto (";
  if (s.use_exact) {
    name << "exact series, " << s.terms << (s.terms == 1 ? " term" : " terms");
  } else {
    name << "walks, " << describe_walks(s);
  }
  name << "; relative error " << (s.use_exact ? s.exact.error : s.sampled.error) << ", " << s.tolerance << " allowed; "
       << s.reason << ")";
  return name.str();
}

}  // namespace

MaskPtr auto_mask(const Graph& graph, const at::Tensor& alpha, double tolerance, const SuggestOptions& options) {
  // The walks are chosen on the CPU; the mask is created on the device of the graph.
  const Graph here = graph.to(at::kCPU);
  const at::Tensor values = alpha.defined() ? alpha.detach().cpu() : alpha;
  check_suggest_arguments("auto_mask", "alpha", here, values, tolerance, options);
  const Suggestion suggestion = [&] {
    const at::NoGradGuard no_grad;
    return suggest_for(SuggestTarget(here, values, /*f=*/{}, options), tolerance);
  }();
  // A view of alpha, so that the mask follows it and its gradient arrives there.
  const MaskPtr mask = suggestion.use_exact ? power_series_mask(graph, alpha.narrow(0, 0, suggestion.terms))
                                            : one_sided_mask(graph, alpha, *suggestion.walks);
  return std::make_shared<NamedMask>(mask, name_for(suggestion));
}

}  // namespace topomask
