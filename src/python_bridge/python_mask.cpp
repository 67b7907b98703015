#include "python_bridge/python_mask.h"

namespace topomask::python {
namespace {

class PythonMask final : public Mask {
 public:
  PythonMask(int64_t callback, std::string name, int64_t size, int64_t heads, std::optional<at::ScalarType> dtype,
             std::vector<at::Tensor> parameters, double work)
      : callback_(callback),
        name_(std::move(name)),
        size_(size),
        heads_(heads),
        dtype_(dtype),
        parameters_(std::move(parameters)),
        work_(work) {}

  std::string name() const override { return name_; }
  int64_t size() const override { return size_; }
  int64_t heads() const override { return heads_; }
  std::optional<at::ScalarType> dtype() const override { return dtype_; }
  std::vector<at::Tensor> parameters() const override { return parameters_; }
  MaskCounts counts() const override {
    return {.operator_work = work_, .dense_work = work_ * static_cast<double>(size_)};
  }

  MaskPtr to(const at::TensorOptions&) const override {
    TORCH_CHECK(false, "Mask.to: mask ", name_, " is written in Python and is moved there");
  }

  at::Tensor apply(const at::Tensor& x) const override { return like(x, callback_("matmul", {x}).at(0)); }
  at::Tensor apply_transposed(const at::Tensor& x) const override {
    return like(x, callback_("matmul_transposed", {x}).at(0));
  }
  std::vector<at::Tensor> parameter_gradients(const at::Tensor& x, const at::Tensor& grad) const override {
    return callback_("parameter_gradients", {x, grad});
  }

 private:
  at::Tensor like(const at::Tensor& x, const at::Tensor& y) const {
    TORCH_CHECK(y.sizes() == x.sizes() && y.scalar_type() == x.scalar_type() && y.device() == x.device(), name_,
                ".matmul: the result must be ", x.scalar_type(), x.sizes(), " as x is, got ", y.scalar_type(),
                y.sizes());
    return y.contiguous();
  }

  Callback callback_;
  std::string name_;
  int64_t size_, heads_;
  std::optional<at::ScalarType> dtype_;
  std::vector<at::Tensor> parameters_;
  double work_;
};

}  // namespace

Ref<MaskPtr> python_mask(int64_t callback, const std::string& name, int64_t size, int64_t heads,
                         std::optional<at::ScalarType> dtype, const std::vector<at::Tensor>& parameters, double work) {
  return hold<MaskPtr>(std::make_shared<const PythonMask>(callback, name, size, heads, dtype, parameters, work));
}

}  // namespace topomask::python
